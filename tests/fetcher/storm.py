"""The served fetcher in a process of its own, so that its memory can be told from that of the servers it asks.

    python -m tests.fetcher.storm FOLDER SETTINGS   (those of `fetch`, as JSON; tasks on standard input, one URL a line;
                                                     those behind an empty line are given to it when the others have
                                                     all been answered)

Prints one JSON object: for each task the kind of its outcome and the reason, and the most memory it ever had.
"""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

from headrace_runtime import malloc
from headrace_schemas.messages import Deferred, FetchTask
from tests.fetcher.rig import task
from tests.fetcher.served import Served, loopback, served


async def storm(folder: Path, fetch: dict[str, Any], during: list[str], after: list[str]) -> dict[str, Any]:
    urls = during + after
    malloc.give_back()  # as every process of ours does
    async with served(folder, settings=loopback(**fetch, limits={"concurrency": 128})) as fetcher:
        tasks = [task(url, fetch_id=number) for number, url in enumerate(urls)]
        await answered(fetcher, tasks[: len(during)])
        await answered(fetcher, tasks[len(during) :])
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
        "results": sum(not isinstance(result.outcome, Deferred) for result in fetcher.results),
        "peak_kb": int(peak[1]) if peak else 0,
    }


async def answered(fetcher: Served, tasks: list[FetchTask]) -> None:
    """A task that is put off is given again, as the frontier would: a busy machine keeps some waiting for too long."""
    while tasks:
        before = len(fetcher.results)
        await fetcher.send(*tasks)
        await fetcher.answered(before + len(tasks))
        outcomes = fetcher.outcomes
        tasks = [task for task in tasks if isinstance(outcomes[task.fetch_id], Deferred)]


if __name__ == "__main__":
    during, _, after = sys.stdin.read().partition("\n\n")
    print(json.dumps(asyncio.run(storm(Path(sys.argv[1]), json.loads(sys.argv[2]), during.split(), after.split()))))
