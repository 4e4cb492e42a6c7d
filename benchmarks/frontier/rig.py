"""The frontier as a process runs it, without the network: its real handler on a real lane of the embedded engine.

Records come out of the log, and every unit (state, outputs, offsets) is committed to it. Only what stands around the
frontier is ours: producers that append links, and a fetcher that answers every task at once. Their time is not counted.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import msgspec
from prometheus_client import CollectorRegistry

from headrace_frontier.circumstances import Circumstances
from headrace_frontier.handler import FrontierHandler, Wiring
from headrace_frontier.metrics import Metrics
from headrace_frontier.service import BATCH
from headrace_frontier.tuning import Tuning
from headrace_runtime.clock import SystemClock
from headrace_runtime.streams.embedded.engine import EmbeddedStreams
from headrace_runtime.streams.embedded.lane import EmbeddedLane
from headrace_runtime.streams.seams import Lane, Send, Unit
from headrace_schemas import codec
from headrace_schemas.messages import (
    Control,
    CrawlSettings,
    DiscoveredLinks,
    Fetched,
    FetchResult,
    FetchTask,
    Link,
    Mode,
    Robots,
)
from headrace_schemas.settings import RetrySettings, RobotsSettings, ScopeSettings
from headrace_schemas.topics import FETCHER, FRONTIER, STORER, inputs_of
from headrace_schemas.urls import Partitioner

_ALLOW_ALL = Robots(404)
_PAGE = Fetched(200, 20_000, "0" * 64)


class Desired:
    """Stands where `ControlWatch` stands. Every host is due at once: the clock is not what is measured."""

    def __init__(self) -> None:
        usual = ScopeSettings()
        settings = CrawlSettings(scope_mode="all", delay=0.0, low_priority=usual.low_priority)
        self.now = Control(1, settings, mode="paused")

    def mode(self, mode: Mode) -> None:
        self.now = msgspec.structs.replace(self.now, mode=mode)


class Spent:
    """CPU seconds of this process, all its threads: RocksDB's own count too."""

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0

    @contextmanager
    def counting(self) -> Iterator[None]:
        cpu, wall = time.process_time(), time.perf_counter()
        try:
            yield
        finally:
            self.cpu += time.process_time() - cpu
            self.wall += time.perf_counter() - wall

    def rate(self, count: int) -> float:
        """So many for each second of CPU."""
        return count / max(self.cpu, 1e-6)

    def each(self, count: int) -> str:
        return f"{1e6 * self.cpu / max(1, count):.1f} µs each"


class Rig:
    def __init__(
        self, streams: EmbeddedStreams, frontier: EmbeddedLane, fetcher: EmbeddedLane, storer: EmbeddedLane
    ) -> None:
        self.streams, self.lane = streams, frontier
        self._fetcher, self._storer = fetcher, storer
        self.desired = Desired()
        self.database = streams._database
        wiring = Wiring(
            circumstances=Circumstances(self.desired),
            partitioner=Partitioner(1),
            retry=RetrySettings(),
            robots=RobotsSettings(),
            metrics=Metrics(CollectorRegistry()),
            tuning=Tuning(),
        )
        self.handler = FrontierHandler(0, frontier.state, wiring)
        self.robots = 0
        """robots.txt answered so far."""
        self.answered: Counter[str] = Counter()
        """Answers so far, by host."""

    @classmethod
    async def open(cls, folder: Path) -> Self:
        streams = await EmbeddedStreams.open(folder, partitions=1, sync="group", keep=0.0, clock=SystemClock())

        async def idle(lane: Lane) -> None:
            """Never run: the lanes are driven by hand, a unit at a time."""

        frontier = await streams.join(FRONTIER, inputs_of(FRONTIER), idle, stateful=True)
        fetcher = await streams.join(FETCHER, inputs_of(FETCHER), idle)
        storer = await streams.join(STORER, inputs_of(STORER), idle)
        return cls(streams, frontier.open_lane(0), fetcher.open_lane(0), storer.open_lane(0))

    async def close(self) -> None:
        self.handler.close()
        for lane in (self.lane, self._fetcher, self._storer):
            lane.close()
        await self.streams.close()

    # ---- around the frontier ---------------------------------------------------------------------

    async def find(self, batches: Iterable[list[Link]]) -> int:
        """Appends them to `links.discovered`, as parsers do. → links"""
        sends, count = [], 0
        for links in batches:
            count += len(links)
            sends.append(Send("links.discovered", 0, codec.encode(DiscoveredLinks(tuple(links)), 1)))
        await self.streams.publish(sends)
        return count

    async def answer(self) -> int:
        """The fetcher and the storer read all there is, and every task has an answer. → answers"""
        answered = 0
        while records := await self._fetcher.poll(1_000, 0):
            unit = Unit()
            for record in records:
                task: FetchTask = codec.decode(record.topic, record.value)
                self.robots += task.kind == "robots"
                self.answered[task.host] += 1
                unit.send(Send("fetch.results", 0, codec.encode(_result(task), 1)))
            unit.done.extend(records)
            await self._fetcher.commit(unit)
            answered += len(records)
        while records := await self._storer.poll(1_000, 0):
            unit = Unit()
            unit.done.extend(records)
            await self._storer.commit(unit)
        return answered

    # ---- the frontier ----------------------------------------------------------------------------

    async def turn(self, limit: int = BATCH) -> tuple[int, int]:
        """One unit of work, as `run_serial` does it. → records read, tasks released"""
        records = await self.lane.poll(limit, 0) if limit else []
        unit = Unit(self.lane.state)
        self.handler.handle(records, unit, time.time())
        unit.done.extend(records)
        if not unit.empty:
            await self.lane.commit(unit)
            self.handler.committed()
        return len(records), sum(send.topic == "urls.to_fetch" for send in unit.sends)

    async def read_all(self, spent: Spent) -> int:
        """Units until nothing is left to read. → units"""
        units = 0
        with spent.counting():
            while (await self.turn())[0]:
                units += 1
        return units

    async def release(self, spent: Spent) -> int:
        """Units without a message until nothing more may go. → tasks"""
        total = 0
        with spent.counting():
            while released := (await self.turn(0))[1]:
                total += released
        return total

    async def learn_robots(self) -> None:
        """All robots.txt are asked for and answered, so that only pages are left to release: hosts go round, so the
        first round without one says that there is none left."""
        spent, asked = Spent(), -1
        while asked != self.robots:
            asked = self.robots
            self.desired.mode("running")
            await self.release(spent)
            await self.answer()
            self.desired.mode("paused")
            await self.read_all(spent)


def _result(task: FetchTask) -> FetchResult:
    return FetchResult(
        task.fetch_id,
        task.url,
        task.key,
        _ALLOW_ALL if task.kind == "robots" else _PAGE,
        kind=task.kind,
        depth=task.depth,
        referrer=task.referrer,
        attempt=task.attempt,
        finished_at=time.time(),
        latency_ms=20,
        run=task.run,
        host=task.host,
        asked_at=time.time(),
        received=6_000,
        protocol="HTTP/1.1",
    )


async def settled(rig: Rig) -> None:
    """Until RocksDB has nothing left to compact: the next figure must not pay for the last one."""
    for _ in range(200):
        busy = [rig.database.state.property_int_value(f"rocksdb.{name}") for name in _BUSY]
        if not any(busy):
            return
        await asyncio.sleep(0.1)


_BUSY = ("num-running-compactions", "num-running-flushes", "compaction-pending", "mem-table-flush-pending")
