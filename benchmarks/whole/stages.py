"""Where the CPU of a page goes: samples of one crawl (`sampler/`), booked to the stages that a page passes.

A stack belongs to the stage of the innermost frame that has one, except for what `ABOVE` names, which takes all that it
calls. The same stages of a crude pipeline, which does no more than it must (one process, batches of 16 pages, no
politeness, robots.txt, metrics or recovery), are the ceiling to hold this against.
"""

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from benchmarks.figures import Figure

REST = "loop and the rest"
MS = "ms a page"

ABOVE = (
    ("headrace_frontier/seen.py", "seen lookup"),
    ("headrace_storer/store.py", "body files"),
    ("headrace_storer/durable.py", "body files"),
    ("headrace_schemas/urls.py", "canonicalise, hash"),
    ("headrace_schemas/canonical", "canonicalise, hash"),
    ("headrace_fetcher/packing.py", "zstd, sha256"),
)
INNERMOST = (
    ("headrace_schemas/codec.py", "messages"),
    ("headrace_parser/frames.py", "messages"),
    ("headrace_runtime/streams/kafka", "log, state"),
    ("headrace_runtime/streams", "log, state"),
    ("aiokafka", "log, state"),
    ("headrace_frontier", "frontier"),
    ("headrace_fetcher", "fetch"),
    ("aiohappyeyeballs", "fetch"),
    ("httpx", "fetch"),
    ("headrace_parser", "parse"),
    ("selectolax", "parse"),
    ("headrace_storer", "index rows"),
    ("sqlalchemy", "index rows"),
)
THREADS = {
    "pack": "zstd, sha256",
    "asyncio": "log, state",
    "native": "log, state",
}
"""By name: the pool that packs bodies, the flush of the log, RocksDB's own."""

CEILING = {
    "3 KB": {
        "fetch": 0.49,
        "parse": 0.22,
        "zstd, sha256": 0.05,
        "canonicalise, hash": 0.10,
        "seen lookup": 0.06,
        "log, state": 0.05,
        "body files": 0.06,
        "index rows": 0.015,
    },
    "50 KB": {
        "fetch": 0.69,
        "parse": 0.96,
        "zstd, sha256": 0.44,
        "canonicalise, hash": 0.20,
        "seen lookup": 0.05,
        "log, state": 0.10,
        "body files": 0.08,
        "index rows": 0.012,
    },
}
"""ms of CPU a page, on a slower machine than most: compare the shares. The event loop is in its fetch."""


class Sample(Struct, frozen=True):
    command: list[str]
    seconds: dict[str, float]
    """Stack, innermost first, or `thread:NAME` → CPU."""

    @property
    def process(self) -> str:
        """`parser worker`, the name of a service, or `crawl`."""
        if "headrace_parser.worker" in self.command:
            return "parser worker"
        return next(
            (after for word, after in zip(self.command, self.command[1:], strict=False) if word == "run"), "crawl"
        )


def samples(folder: Path) -> list[Sample]:
    return [Sample(**json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]


def by_stage(found: list[Sample]) -> dict[str, float]:
    """CPU seconds, the dearest first."""
    total: defaultdict[str, float] = defaultdict(float)
    for sample in found:
        for where, seconds in sample.seconds.items():
            total[stage_of(where)] += seconds
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def by_process(found: list[Sample]) -> dict[str, float]:
    total: defaultdict[str, float] = defaultdict(float)
    for sample in found:
        total[sample.process] += sum(sample.seconds.values())
    return dict(total)


def by_function(found: list[Sample], most: int = 25) -> Iterator[tuple[str, str, float]]:
    """Process, function and the seconds in it and in the C it calls; dearest first."""
    total: defaultdict[tuple[str, str], float] = defaultdict(float)
    for sample in found:
        for where, seconds in sample.seconds.items():
            total[sample.process, _short(where.partition("|")[0])] += seconds
    for (process, function), seconds in sorted(total.items(), key=lambda item: -item[1])[:most]:
        yield process, function, seconds


def stage_of(where: str) -> str:
    if where.startswith("thread:"):
        return THREADS.get(where.removeprefix("thread:"), REST)
    frames = where.split("|")
    for fragment, stage in ABOVE:
        if any(fragment in frame for frame in frames):
            return stage
    return next((stage for frame in frames for fragment, stage in INNERMOST if fragment in frame), REST)


def _short(frame: str) -> str:
    path, _, function = frame.rpartition(":")
    return f"{'/'.join(Path(path).parts[-2:])}:{function}"


def figures(found: list[Sample], size: str, pages: int) -> list[Figure]:
    spent, ceiling = by_stage(found), CEILING.get(size, {})
    whole, least = sum(spent.values()), sum(ceiling.values())
    figures = []
    for stage, seconds in spent.items():
        beside = f", of the ceiling {100 * ceiling[stage] / least:.0f} %" if stage in ceiling else ""
        note = f"{100 * seconds / whole:.0f} % of it{beside}"
        figures.append(Figure(f"CPU, {size}", stage, 1000 * seconds / pages, MS, note=note))
    figures.append(Figure(f"CPU, {size}", "total", 1000 * whole / pages, MS, note=f"ceiling {least:.2f}"))
    return figures + [
        Figure(f"CPU, {size}", f"of the total, {process}", 1000 * seconds / pages, MS)
        for process, seconds in by_process(found).items()
    ]
