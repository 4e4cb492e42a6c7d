"""The hosts that most pages come from, as a metric that never has more than a few series."""

from collections import Counter
from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

SHOWN = 20
KEPT = 1_024
"""Hosts counted at the least; at twice as many the lesser half is forgotten, and starts at 0 if it comes again."""


class Busiest(Collector):
    """Exact while there are fewer than 2 x KEPT hosts; beyond, a host is counted since it was last forgotten."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._pages: Counter[str] = Counter()
        registry.register(self)

    def note(self, host: str) -> None:
        self._pages[host] += 1
        if len(self._pages) > 2 * KEPT:
            self._pages = Counter(dict(self._pages.most_common(KEPT)))

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(
            "crawler_busiest_host_pages", f"Pages fetched of the {SHOWN} hosts with most of them", labels=["host"]
        )
        for host, pages in self._pages.most_common(SHOWN):
            family.add_metric([host], pages)
        yield family
