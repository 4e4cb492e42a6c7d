"""The fetcher service as a process runs it: built by `service.build`, on a real embedded log."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from headrace_fetcher.service import build
from headrace_runtime.clock import Deadline, SystemClock
from headrace_runtime.control import ControlWatch
from headrace_runtime.service import Parts, Service
from headrace_runtime.streams.embedded.engine import EmbeddedStreams
from headrace_runtime.streams.seams import Lane, Record, Send, Unit
from headrace_schemas import codec
from headrace_schemas.messages import Control, CrawlSettings, FetchedPage, FetchResult, FetchTask, NotModified
from headrace_schemas.settings import FetchSettings, LimitSettings, Settings
from headrace_schemas.topics import CONTROL_KEY

PATIENCE = 120.0  # seconds; only a failure waits that long


@dataclass
class Served:
    streams: EmbeddedStreams
    service: Service
    control: ControlWatch
    registry: CollectorRegistry
    records: list[Record] = field(default_factory=list)
    """What came out, in the order of the log it was read from."""
    lanes: list[Lane] = field(default_factory=list)
    revision: int = 0

    @property
    def results(self) -> list[FetchResult]:
        return [codec.decode(r.topic, r.value) for r in self.records if r.topic == "fetch.results"]

    @property
    def pages(self) -> list[FetchedPage | NotModified]:
        return [codec.decode(r.topic, r.value) for r in self.records if r.topic == "pages.fetched"]

    @property
    def outcomes(self) -> dict[int, Any]:
        return {result.fetch_id: result.outcome for result in self.results}

    async def send(self, *tasks: FetchTask, partition: int = 0) -> None:
        await self.streams.publish(
            Send("urls.to_fetch", partition, codec.encode(task), task.fetch_id.to_bytes(8, "big")) for task in tasks
        )

    async def mode(self, mode: Any) -> None:
        self.revision += 1
        control = Control(self.revision, CrawlSettings(), mode=mode)
        await self.streams.publish([Send("crawl.control", 0, codec.encode(control), CONTROL_KEY)])
        await self.until(lambda: self.control.now.revision == self.revision)

    async def until(self, condition: Callable[[], Any]) -> None:
        deadline = Deadline(PATIENCE)
        while not condition():
            assert not deadline.passed, f"waited in vain; so far {self.results}"
            await asyncio.sleep(0.005)

    async def answered(self, number: int) -> None:
        await self.until(lambda: sum(record.topic == "fetch.results" for record in self.records) >= number)

    async def settled(self) -> bool:
        """Whether the group has committed all it was given."""
        return all(e.committed == e.end for e in await self.streams.edges([("urls.to_fetch", "fetcher")]))

    async def read(self, lane: Lane) -> None:
        while lane.stopping is None:
            if records := await lane.poll(100, 0.02):
                self.records += records
                unit = Unit()
                unit.done.extend(records)
                await lane.commit(unit)


@asynccontextmanager
async def served(
    folder: Path,
    *,
    settings: Settings | None = None,
    mode: str = "running",
    partitions: int = 1,
    wrap: Callable[[Lane], Lane] = lambda lane: lane,
    drain: float = 5.0,
) -> AsyncIterator[Served]:
    """`wrap` may put something between the lane and the service, for faults that a real engine has seldom."""
    clock = SystemClock()
    streams = await EmbeddedStreams.open(folder / "log", partitions=partitions, sync="none", keep=0.0, clock=clock)
    control = await ControlWatch.open(streams)
    registry = CollectorRegistry()
    service = build(settings or loopback(), Parts(streams, control, clock, registry, folder))
    rig = Served(streams, service, control, registry)
    await rig.mode(mode)
    await service.start()

    async def serve(lane: Lane) -> None:
        rig.lanes.append(lane)
        await service.serve(wrap(lane))

    fetcher = await streams.join(service.group, service.topics, serve)
    reader = await streams.join("test", ["pages.fetched", "fetch.results"], rig.read)
    running = [asyncio.create_task(member.run()) for member in (fetcher, reader)]
    beside = [asyncio.ensure_future(work()) for work in service.background]
    try:
        yield rig
    finally:
        await fetcher.stop(Deadline(drain))
        await reader.stop(Deadline(1.0))
        ended = await asyncio.gather(*running, return_exceptions=True)
        for task in beside:
            task.cancel()
        await asyncio.gather(*beside, return_exceptions=True)
        await service.close()
        await control.close()
        await streams.close()
        for error in ended:
            if isinstance(error, BaseException):
                raise error


def loopback(**more: Any) -> Settings:
    limits = more.pop("limits", {})
    fetch: dict[str, Any] = {"allow_private": ("127.0.0.0/8",), "total_timeout": 5.0} | more
    return Settings(
        contact="ops@example.org", fetch=FetchSettings(**fetch), limits=LimitSettings(**{"concurrency": 64} | limits)
    )
