"""A frontier in a process of its own: to be killed (`hold`), or to go on from what was left (`first`)."""

import asyncio
import sys
from pathlib import Path

from benchmarks.frontier.cases import first, hold


def main() -> None:
    folder, what = Path(sys.argv[1]), sys.argv[2]
    asyncio.run(hold(folder, int(sys.argv[3])) if what == "hold" else first(folder))


if __name__ == "__main__":
    main()
