"""What Google's parser says, by its port to Python; run by the Python of the peers' environment.

Reads a JSON line [file, agent, URLs] for each question, and prints a JSON line of verdicts.
"""

import json
import sys
from pathlib import Path

from gpyrobotstxt.robots_cc import RobotsMatcher  # type: ignore[import-not-found]


def main() -> None:
    for line in sys.stdin:
        file, agent, urls = json.loads(line)
        text = Path(file).read_bytes()
        try:
            print(json.dumps([bool(RobotsMatcher().allowed_by_robots(text, [agent], url)) for url in urls]), flush=True)
        except Exception:
            print("null", flush=True)


if __name__ == "__main__":
    main()
