"""Counters and histograms for what happens to every page: those of the Prometheus client cost a lock and a context
for each call.

Written by one thread, the event loop's; read by whoever asks.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString


class Count:
    """One series of a counter."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, more: float = 1) -> None:
        self.value += more


class Spread:
    """One series of a histogram."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds, self.counts, self.sum = bounds, [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


Series = TypeVar("Series", Count, Spread)


class _Family(Collector, Generic[Series]):
    """The series of one metric by the values of its labels; each is there from when it is first asked for."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str], make: Callable[[], Series], registry: CollectorRegistry
    ) -> None:
        self._name, self._text, self._names = name, text, tuple(labels)
        self._make: Callable[[], Series] = make
        self._series: dict[tuple[str, ...], Series] = {}
        registry.register(self)

    def labels(self, *values: str) -> Series:
        found = self._series.get(values)
        if found is None:
            if len(values) != len(self._names):
                raise ValueError(f"{self._name} has the labels {self._names}, not {values}")
            found = self._series[values] = self._make()
        return found


class Counts(_Family[Count]):
    """A counter: `labels(…)` gives the series to count in."""

    def __init__(self, name: str, text: str, labels: Sequence[str] = (), *, registry: CollectorRegistry) -> None:
        super().__init__(name, text, labels, Count, registry)

    def describe(self) -> Iterator[CounterMetricFamily]:
        yield CounterMetricFamily(self._name, self._text, labels=self._names)

    def collect(self) -> Iterator[CounterMetricFamily]:
        for family in self.describe():
            for values, count in list(self._series.items()):
                family.add_metric(values, count.value)
            yield family


class Spreads(_Family[Spread]):
    """A histogram: `labels(…)` gives the series to observe in."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str] = (), *, buckets: Sequence[float], registry: CollectorRegistry
    ) -> None:
        super().__init__(name, text, labels, partial(Spread, tuple(buckets)), registry)

    def describe(self) -> Iterator[HistogramMetricFamily]:
        yield HistogramMetricFamily(self._name, self._text, labels=self._names)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        for family in self.describe():
            for values, spread in list(self._series.items()):
                bounds = [*map(floatToGoString, (*spread.bounds, float("inf")))]
                total = spread.sum
                family.add_metric(values, list(zip(bounds, accumulate(spread.counts), strict=True)), total)
            yield family
