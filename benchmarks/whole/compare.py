"""From runs to figures: ratios first, each with its bar, then a line for every crawler. Of rounds the median counts."""

from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import Any

from msgspec import Struct

from benchmarks.figures import Figure, number
from benchmarks.whole.runs import Run
from benchmarks.whole.stages import MS

EMBEDDED, KAFKA, SCRAPY, COLLY = "headrace embedded", "headrace on Kafka", "Scrapy", "Colly"
BARS = {
    "3 KB": {(EMBEDDED, SCRAPY): ">= 8", (EMBEDDED, COLLY): "> 1", (KAFKA, SCRAPY): ">= 5"},
    "50 KB": {(EMBEDDED, SCRAPY): ">= 5", (EMBEDDED, COLLY): "> 1", (KAFKA, SCRAPY): ">= 4"},
}
"""Pages for each CPU second of the first, by those of the second."""
BOTH_CORES = ">= 1.6"
MEMORY = "<= 500"


class Line(Struct, frozen=True):
    """All runs of one crawler at one size, on as many cores; those that failed are not in it."""

    crawler: str
    size: str
    cores: int
    runs: list[Run]

    def median(self, of: Callable[[Run], float]) -> float:
        return median(map(of, self.runs))

    @property
    def per_cpu(self) -> float:
        return self.median(lambda run: run.per_cpu)

    @property
    def rate(self) -> float:
        return self.median(lambda run: run.rate)

    @property
    def rss(self) -> float:
        return max(run.rss for run in self.runs)

    def as_json(self) -> dict[str, Any]:
        return {
            "crawler": self.crawler,
            "size": self.size,
            "cores": self.cores,
            "pages_per_second": self.rate,
            "pages_per_cpu_second": self.per_cpu,
            "peak_rss_mb": self.rss,
        }


def lines(runs: Iterable[Run]) -> list[Line]:
    found: dict[tuple[str, int, str], Line] = {}
    for run in runs:
        if not run.failed:
            key = (run.size, run.cores, run.crawler)
            found.setdefault(key, Line(run.crawler, run.size, run.cores, [])).runs.append(run)
    return list(found.values())


def failures(runs: Iterable[Run]) -> list[str]:
    return [f"FAILED: {run.crawler}, {run.size}, {_cores(run.cores)}: {run.failed}" for run in runs if run.failed]


def figures(runs: Sequence[Run]) -> list[Figure]:
    found = lines(runs)
    sizes = dict.fromkeys(line.size for line in found)
    return [
        figure for size in sizes for figure in [*_ratios(size, found), *_both_cores(size, found), *_ours(size, found)]
    ]


def _ratios(size: str, found: list[Line]) -> Iterable[Figure]:
    one = {line.crawler.rpartition(" ")[0] if _is_peer(line) else line.crawler: line for line in _of(size, found, 1)}
    for (ours, peer), bar in BARS.get(size, {}).items():
        if ours in one and peer in one:
            ratio = one[ours].per_cpu / one[peer].per_cpu
            note = "the broker's CPU not counted" if ours == KAFKA else "all stored" if peer == SCRAPY else ""
            yield Figure(size, f"{ours} / {one[peer].crawler}", ratio, "× pages per CPU-s", bar, note)


def _both_cores(size: str, found: list[Line]) -> Iterable[Figure]:
    by_cores = {line.cores: line for line in found if (line.crawler, line.size) == (EMBEDDED, size)}
    if {1, 2} <= by_cores.keys():
        ratio = by_cores[2].rate / by_cores[1].rate
        note = "the web shares one of the two"
        yield Figure(size, f"{EMBEDDED}: two cores / one", ratio, "× pages/s", BOTH_CORES, note)


def _ours(size: str, found: list[Line]) -> Iterable[Figure]:
    for name in (EMBEDDED, KAFKA):
        ours = [line for line in found if (line.crawler, line.size) == (name, size)]
        if ours:
            bar = MEMORY if name == EMBEDDED else ""
            yield Figure(size, f"{name}: peak RSS", max(line.rss for line in ours), "MB", bar)
            duplicates = sum(run.duplicates for line in ours for run in line.runs)
            yield Figure(size, f"{name}: pages asked twice", duplicates, "", "== 0")


HEAD = (
    *("pages", "by", "cores", "pages/s", "pages per CPU-s", "rounds", "× Scrapy", "peak RSS MB", "stored MB", "lost"),
    *("twice", "robots.txt", "start-up s"),
)
NUMBERS = range(2, len(HEAD))


def rows(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """For people: one for each crawler, size and number of cores."""
    found = lines(runs)
    return [HEAD, *(_row(line, found) for line in found)]


def _row(line: Line, found: list[Line]) -> tuple[str, ...]:
    scrapy = next((other for other in _of(line.size, found, 1) if other.crawler.startswith(SCRAPY)), None)
    rates = [run.per_cpu for run in line.runs]
    return (
        line.size,
        line.crawler,
        str(line.cores),
        number(line.rate),
        number(line.per_cpu),
        f"{min(rates):,.0f} to {max(rates):,.0f}",
        number(line.per_cpu / scrapy.per_cpu) if scrapy else "",
        number(line.rss),
        number(line.median(lambda run: run.stored) / 1e6) if any(run.stored for run in line.runs) else "nothing",
        number(max(run.lost for run in line.runs)),
        number(max(run.duplicates for run in line.runs)),
        number(max(run.robots for run in line.runs)),
        f"{line.median(lambda run: run.startup):.1f}",
    )


def by_process(runs: Sequence[Run]) -> list[Figure]:
    """Of crawlers of several processes."""
    figures = []
    for line in lines(runs):
        costs = [_cpu(run) for run in line.runs]
        for name, note in _processes(line) if len(costs[0]) > 1 else ():
            ms = 1000 * median(cost[name] / run.pages for cost, run in zip(costs, line.runs, strict=True))
            figures.append(Figure(f"{line.crawler}, {line.size}", name, ms, MS, note=note))
    return figures


def _processes(line: Line) -> Iterable[tuple[str, str]]:
    for name in line.runs[0].cpu:
        yield name, ""
    for name in line.runs[0].beside:
        memory = max(run.beside_rss for run in line.runs)
        yield name, "; ".join(filter(None, ["not counted", f"{memory:,.0f} MB", line.runs[-1].note]))


def _cpu(run: Run) -> dict[str, float]:
    return run.cpu | run.beside


def _of(size: str, found: list[Line], cores: int) -> list[Line]:
    return [line for line in found if line.size == size and line.cores == cores]


def _is_peer(line: Line) -> bool:
    return line.crawler.startswith((SCRAPY, COLLY))


def _cores(number: int) -> str:
    return "one core" if number == 1 else f"{number} cores"
