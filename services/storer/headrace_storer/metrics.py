"""What the storer counts. Names are a contract with dashboards."""

from collections.abc import Callable, Iterable
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from headrace_storer.archive import Read
from headrace_storer.changes import AnswerKind, PageChange, ParsedChange
from headrace_storer.handler import Job


class Metrics:
    """Called on the event loop only, once a batch."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.pages = Counter("crawler_pages_stored", "Pages with a body, stored", registry=registry)
        self.bytes = Counter("crawler_store_bytes", "Bytes of new bodies written, compressed", registry=registry)
        self.rows = Counter("crawler_rows", "Changes written to the index, by kind", ["kind"], registry=registry)
        self.retries = Counter("crawler_index_retries", "Batches tried again: store or index failed", registry=registry)
        self._trouble = Gauge(
            "crawler_store_trouble_seconds",
            "How long the store or the index has failed now; 0: it works",
            registry=registry,
        )
        for kind in (*get_args(AnswerKind), "fetch", "parsed"):
            self.rows.labels(kind)
        self.seconds = Histogram(
            "crawler_store_batch_seconds",
            "From taking a batch to its commit, waits for a failing disk or index included",
            registry=registry,
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60),
        )

    def watch(self, *, trouble: Callable[[], float]) -> None:
        self._trouble.set_function(trouble)

    def kept(self, jobs: Iterable[Read], written: int, seconds: float) -> None:
        kinds: dict[str, int] = {}
        bodies = 0
        for job in jobs:
            if not isinstance(job, Job):
                continue
            bodies += job.body is not None
            if job.requests:
                kinds["fetch"] = kinds.get("fetch", 0) + len(job.requests)
            match job.change:
                case PageChange():
                    kinds[job.change.kind] = kinds.get(job.change.kind, 0) + 1
                case ParsedChange():
                    kinds["parsed"] = kinds.get("parsed", 0) + 1
                case None:
                    pass
        for kind, count in kinds.items():
            self.rows.labels(kind).inc(count)
        self.pages.inc(bodies)
        self.bytes.inc(written)
        self.seconds.observe(seconds)
