"""The storer, composed: three topics in, bodies and rows out, no message sent."""

import math
from collections.abc import Callable
from pathlib import Path

from headrace_runtime.clock import Clock
from headrace_runtime.service import Parts, Service
from headrace_runtime.streams.loops import run_pooled
from headrace_runtime.streams.seams import Lane
from headrace_schemas.settings import Settings
from headrace_schemas.topics import STORER, inputs_of
from headrace_storer.archive import Archive
from headrace_storer.durable import NoSync, best_sync
from headrace_storer.index import open_index
from headrace_storer.leash import Leash
from headrace_storer.metrics import Metrics
from headrace_storer.sink import LaneWorker, Sink
from headrace_storer.store import Store

_ABANDONED = 600.0  # seconds after which a temporary file is no living process's: writing one takes milliseconds
_RECORDS = 8_192  # taken on at once by all lanes of a process: with pages of 12 KB some 30 MB


def build(settings: Settings, parts: Parts) -> Service:
    leash = Leash()
    archive = Archive(
        open_store(settings, parts.workspace),
        lambda: open_index(settings, parts.workspace, create=True, leash=leash),
        _abandoned_before(settings, parts.clock),
        leash.cut,
    )
    sink = Sink(archive, Metrics(parts.registry), parts.clock)
    width = max(64, min(1_024, _RECORDS // settings.partitions))

    async def serve(lane: Lane) -> None:
        await run_pooled(lane, lambda _lane, desk: LaneWorker(sink, desk), width=width)

    return Service(
        group=STORER,
        topics=inputs_of(STORER),
        serve=serve,
        start=sink.start,
        close=sink.close,
        status=sink.status,
        waits=lambda: sink.trouble,
        busy=lambda: sink.busy,
    )


def open_store(settings: Settings, workspace: Path) -> Store:
    return Store(workspace, NoSync() if settings.streams.sync == "none" else best_sync())


def _abandoned_before(settings: Settings, clock: Clock) -> Callable[[], float]:
    """Embedded, one process holds the workspace, so every temporary file found at its start is a dead one's."""
    return lambda: clock.now() - _ABANDONED if settings.kafka else math.inf
