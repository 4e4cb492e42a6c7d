"""The served fetcher in a process of its own, so that its memory can be told from that of the servers it asks.

    python -m tests.fetcher.storm FOLDER CLIENT   (tasks on standard input, one URL a line; those behind an empty line
                                                   are given to it when the others have all been answered)

Prints one JSON object: for each task the kind of its outcome and the reason, and the most memory it ever had.
"""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

from tests.fetcher.rig import task
from tests.fetcher.served import loopback, served


async def storm(folder: Path, client: str, during: list[str], after: list[str]) -> dict[str, Any]:
    urls = during + after
    settings = loopback(client=client, total_timeout=8.0, read_timeout=3.0, limits={"concurrency": 128})
    async with served(folder, settings=settings) as fetcher:
        tasks = [task(url, fetch_id=number) for number, url in enumerate(urls)]
        await fetcher.send(*tasks[: len(during)])
        await fetcher.answered(len(during))
        await fetcher.send(*tasks[len(during) :])
        await fetcher.answered(len(urls))
        assert await fetcher.settled()
        outcomes = [
            [type(outcome).__name__, getattr(outcome, "reason", "")]
            for outcome in (fetcher.outcomes.get(number) for number in range(len(urls)))
        ]
        pages = sorted(page.fetch_id for page in fetcher.pages)
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return {
        "outcomes": outcomes,
        "pages": pages,
        "results": len(fetcher.results),
        "peak_kb": int(peak[1]) if peak else 0,
    }


if __name__ == "__main__":
    during, _, after = sys.stdin.read().partition("\n\n")
    print(json.dumps(asyncio.run(storm(Path(sys.argv[1]), sys.argv[2], during.split(), after.split()))))
