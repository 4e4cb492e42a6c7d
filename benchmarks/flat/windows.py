"""From samples to figures: what a page cost around 10,000 stored pages, and further on by threes, to the end."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from benchmarks.figures import Figure
from benchmarks.flat.samples import Sample, spent_at

BASE = 10_000
"""Pages stored at what all else is held against; of a short crawl a third."""
FLAT = "<= 1.2"
MEMORY = "<= 500"


class Window(Struct, frozen=True):
    name: str
    first: int
    last: int
    """From `first` pages stored to `last`."""

    def cost(self, samples: Sequence[Sample], of: str = "cpu") -> float:
        """Microseconds of CPU a page."""
        seconds = spent_at(samples, self.last, of) - spent_at(samples, self.first, of)
        return 1e6 * seconds / (self.last - self.first)

    def among(self, samples: Sequence[Sample]) -> list[Sample]:
        return [sample for sample in samples if self.first < sample.pages <= self.last]


def base_of(pages: int) -> Window:
    """From half of it to one and a half: neither the start, nor so few that a backlog coming or going shows."""
    base = max(1, min(BASE, pages // 3))
    return Window(f"{base:,} pages", base // 2, base + base // 2)


def windows(pages: int) -> list[Window]:
    """The base, then 30 k, 100 k, … and the end: each the last tenth of the way there, or as wide as the base."""
    found = [base_of(pages)]
    base = max(1, min(BASE, pages // 3))
    for at in sorted({mark for mark in (base * 3, base * 10, base * 30, base * 100) if mark < 0.8 * pages} | {pages}):
        found.append(Window(f"{at:,} pages", max(found[0].last, at - max(base, at // 10)), at))
    return found


def figures(samples: Sequence[Sample], pages: int, again: Sequence[Sample]) -> Iterator[Figure]:
    """`again`: of a second, short crawl after the long one: the machine may be another than an hour ago."""
    first, *later = windows(pages)
    bases = [first.cost(samples), *([first.cost(again)] if again else [])]
    base = sum(bases) / len(bases)
    yield Figure("CPU of a page", first.name, bases[0], "µs", note=_kernel(first, samples))
    if again:
        yield Figure("CPU of a page", f"{first.name}, once more", bases[1], "µs", note=_kernel(first, again))
    for window in later:
        yield Figure("CPU of a page", window.name, window.cost(samples), "µs", note=_kernel(window, samples))
    beside = ", the mean of both" if again else ""
    for window in later:
        bar = FLAT if window is later[-1] else ""
        case = f"{window.name} / {first.name}"
        yield Figure("CPU of a page", case, window.cost(samples) / base, "×", bar, f"against {base:,.0f} µs{beside}")
    for window in (first, *later):
        held = window.among(samples) or samples
        most = max(held, key=lambda sample: sample.rss)
        note = f"main process {most.main:,.0f}, parser workers {most.workers:,.0f}"
        yield Figure("RSS at the most", window.name, most.rss, "MB", note=note)
    peak = max((*samples, *again), key=lambda sample: sample.rss)
    yield Figure("RSS at the most", "throughout", peak.rss, "MB", MEMORY, f"at {peak.pages:,} pages")


def _kernel(window: Window, samples: Sequence[Sample]) -> str:
    return f"in the kernel {window.cost(samples, 'system'):,.0f}"
