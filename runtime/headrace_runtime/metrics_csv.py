"""The metrics of a process as CSV, for those without Prometheus: timestamp, metric, value.

Histograms without their buckets, which would be most of the file: `_count` and `_sum` stay.
"""

import asyncio
import csv
import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.samples import Sample

from headrace_runtime.logs import get_logger

HEADER = ("timestamp", "metric", "value")
_LEFT_OUT = ("_bucket", "_created")

log = get_logger("metrics")


class MetricsCsv:
    """`path` is asked before each write: it names the run, and a service outlives one."""

    def __init__(self, registry: CollectorRegistry, path: Callable[[], Path], interval: float) -> None:
        self._registry, self._path, self._interval = registry, path, interval

    async def run(self, stop: asyncio.Event) -> None:
        """The last figures are those at the stop: a moment later the process owns nothing, and its gauges say so."""
        while not stop.is_set():
            try:
                async with asyncio.timeout(self._interval):
                    await stop.wait()
            except TimeoutError:
                pass
            await asyncio.to_thread(self.append, self.lines())

    def lines(self) -> str:
        """Collected on the event loop, where everything that counts lives."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        stamp = f"{time.time():.3f}"
        for family in self._registry.collect():
            for sample in _shown(family):
                writer.writerow((stamp, _notation(sample), f"{sample.value:.15g}"))
        return out.getvalue()

    def append(self, lines: str) -> None:
        """A disk that is full, or a folder nobody may write to, is no reason to stop a crawl."""
        path = self._path()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8", newline="") as file:
                if file.tell() == 0:
                    file.write(",".join(HEADER) + "\n")
                file.write(lines)
        except OSError as error:
            log.once(str(path), "metrics are not written as CSV", error=str(error))
        else:
            log.forget(str(path))


def _shown(family: Metric) -> Iterator[Sample]:
    return (sample for sample in family.samples if not sample.name.endswith(_LEFT_OUT))


def _notation(sample: Sample) -> str:
    """As Prometheus writes it: name{label="value"}."""
    if not sample.labels:
        return sample.name
    pairs = (f'{name}="{_escaped(value)}"' for name, value in sample.labels.items())
    return f"{sample.name}{{{','.join(pairs)}}}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
