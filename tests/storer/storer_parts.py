"""The storer's parts on a workspace, without an engine, and a site for it to keep."""

import asyncio
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from headrace_runtime.clock import SystemClock
from headrace_runtime.streams.loops import run_pooled
from headrace_runtime.streams.seams import Record
from headrace_schemas.settings import Settings
from headrace_storer.archive import Archive
from headrace_storer.durable import NoSync
from headrace_storer.index import open_index
from headrace_storer.leash import Leash
from headrace_storer.metrics import Metrics
from headrace_storer.sink import LaneWorker, Pace, Sink
from headrace_storer.store import Store
from tests.storer.storer_lane import ListLane
from tests.storer.storer_messages import page, parsed, record

QUICK = Pace(gather=0.001, first_pause=0.01, longest_pause=0.05)


class Storer:
    """The service's parts on a workspace, without an engine."""

    def __init__(self, settings: Settings, workspace: Path, store: Store | None = None, pace: Pace = QUICK) -> None:
        self.settings, self.workspace = settings, workspace
        self.registry = CollectorRegistry()
        self.store = store or Store(workspace, NoSync())
        leash = Leash()
        archive = Archive(
            self.store,
            lambda: open_index(settings, workspace, create=True, leash=leash),
            lambda: math.inf,
            leash.cut,
        )
        self.sink = Sink(archive, Metrics(self.registry), SystemClock(), pace)

    async def __aenter__(self) -> "Storer":
        await self.sink.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.sink.close()

    async def serve(self, lane: ListLane) -> None:
        await asyncio.wait_for(run_pooled(lane, lambda _, desk: LaneWorker(self.sink, desk), width=64), 30)

    def value(self, name: str, **labels: str) -> float:
        return self.registry.get_sample_value(name, labels) or 0.0

    def urls(self) -> list[str]:
        index = open_index(self.settings, self.workspace, create=False)
        try:
            return [row.url for row in index.rows()]
        finally:
            index.close()


def site(count: int) -> list[msgspec.Struct]:
    messages: list[msgspec.Struct] = []
    for n in range(1, count + 1):
        url = f"http://site.test/{n}"
        messages += [page(n, url, b"body %d" % n), parsed(n, url)]
    return messages


def records_of(messages: Sequence[msgspec.Struct]) -> list[Record]:
    return [record(message, offset) for offset, message in enumerate(messages)]


async def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)
