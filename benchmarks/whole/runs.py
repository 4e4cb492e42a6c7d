"""What one run of one crawler is, what it yields, and when it is no figure at all: the web's log decides."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct, structs

from benchmarks.web.expected import Expected
from benchmarks.web.log import Request
from benchmarks.web.running import RunningWeb
from benchmarks.whole.measure import Spent

PATIENCE = 600.0  # seconds that a run may take at the most


class Arena(Struct, frozen=True):
    """Where all of them run: one web, and the cores of the two sides."""

    web: RunningWeb
    size: str
    """Of its pages, for people."""
    wanted: list[Expected]
    """What a perfect crawl from `seed` requests."""
    seed: str
    web_core: set[int]
    folder: Path
    """Each run makes one of its own below."""


class Outcome(Struct, frozen=True, kw_only=True):
    """What a crawler says of itself."""

    spent: Spent
    stored: int = 0
    """Bytes on disk."""
    beside: tuple[str, ...] = ()
    """Names in `spent` that are shown and not counted."""
    note: str = ""
    problems: tuple[str, ...] = ()
    """Why it is no good run: an exit code, pages that are not in the store."""


class Crawler(Protocol):
    @property
    def name(self) -> str: ...

    def crawl(self, arena: Arena, folder: Path, cores: set[int]) -> Outcome:
        """From one seed to the end, on these cores. `folder` is empty and its own."""


class Run(Struct, frozen=True, kw_only=True):
    crawler: str
    size: str
    cores: int
    """That the crawler had."""
    pages: int
    """Different ones that the web gave it."""
    seconds: float
    """From the first request to the end."""
    cpu: dict[str, float]
    """CPU seconds in that time, by process with its children; all of them count."""
    beside: dict[str, float]
    """The same of what does not count (the broker)."""
    startup: float
    """CPU seconds before the first request; not in `cpu`."""
    rss: float
    """MB at the most, all processes that count."""
    beside_rss: float
    stored: int
    """Bytes on disk when it ended."""
    lost: int
    """URLs that a perfect crawl requests and this one did not."""
    duplicates: int
    """Requests for a page that had been asked for before."""
    robots: int
    """Requests for a robots.txt."""
    note: str = ""
    failed: str = ""
    """Why nothing that it says counts; empty: it does."""

    @property
    def rate(self) -> float:
        return self.pages / self.seconds if self.seconds else 0.0

    @property
    def per_cpu(self) -> float:
        """Pages for each second of CPU."""
        return self.pages / max(1e-9, sum(self.cpu.values()))

    def as_json(self) -> dict[str, Any]:
        return structs.asdict(self) | {"pages_per_second": self.rate, "pages_per_cpu_second": self.per_cpu}


class Judgement(Struct, frozen=True):
    pages: int
    lost: int
    duplicates: int
    robots: int
    strange: int
    """Requests for what no page links to."""


def judge(wanted: Iterable[Expected], requests: Iterable[Request], port: int) -> Judgement:
    robots, asked = 0, Counter[str]()
    for request in requests:
        if request.path == "/robots.txt":
            robots += 1
        else:
            asked[f"http://{request.ip}:{port}{request.path}"] += 1
    known = {page.url for page in wanted}
    pages = len(known & asked.keys())
    strange = sum(times for url, times in asked.items() if url not in known)
    return Judgement(pages, len(known) - pages, sum(asked.values()) - strange - pages, robots, strange)


def run(crawler: Crawler, arena: Arena, cores: set[int], label: str) -> Run:
    folder = arena.folder / label
    folder.mkdir()
    before = len(arena.web.requests())
    outcome = crawler.crawl(arena, folder, cores)
    found = judge(arena.wanted, arena.web.requests()[before:], arena.web.port)
    spent, beside = outcome.spent, outcome.beside
    return Run(
        crawler=crawler.name,
        size=arena.size,
        cores=len(cores),
        pages=found.pages,
        seconds=spent.seconds,
        cpu={name: seconds for name, seconds in spent.cpu.items() if name not in beside},
        beside={name: spent.cpu[name] for name in beside},
        startup=spent.before,
        rss=spent.together,
        beside_rss=sum(spent.rss[name] for name in beside),
        stored=outcome.stored,
        lost=found.lost,
        duplicates=found.duplicates,
        robots=found.robots,
        note=outcome.note,
        failed="; ".join([*_against(found), *outcome.problems]),
    )


def _against(found: Judgement) -> Iterable[str]:
    if found.lost:
        yield f"{found.lost:,} URLs lost of {found.lost + found.pages:,}"
    if found.strange:
        yield f"{found.strange:,} requests for pages that are not there"
