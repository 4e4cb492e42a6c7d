"""The life of a process's services, on the real embedded engine; a fake only for an engine that hangs."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace_runtime.clock import Deadline, SystemClock
from headrace_runtime.endpoint import new_registry
from headrace_runtime.service import Service
from headrace_runtime.streams.embedded.engine import EmbeddedStreams
from headrace_runtime.streams.loops import Desk, run_pooled
from headrace_runtime.streams.seams import Lane, Record, Send, Serve, Streams
from headrace_runtime.supervisor import Supervisor
from headrace_schemas.errors import FatalError, Fenced, UsageError
from tests.runtime.waiting import until


@pytest.fixture
async def streams(tmp_path: Path) -> AsyncIterator[EmbeddedStreams]:
    streams = await EmbeddedStreams.open(tmp_path / "log", partitions=2, sync="none", keep=0.0, clock=SystemClock())
    yield streams
    await streams.close()


class Relay:
    """Passes each record on to the next topic; `gate` holds what is under way."""

    def __init__(self, lane: Lane, desk: Desk, to: str | None, gate: asyncio.Event) -> None:
        self._lane, self._desk, self._to, self._gate = lane, desk, to, gate
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self, records: Sequence[Record]) -> None:
        for record in records:
            task = asyncio.create_task(self._pass(record))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pass(self, record: Record) -> None:
        await self._gate.wait()
        self._desk.finish(record, [Send(self._to, record.partition, record.value)] if self._to else [])

    async def drain(self, deadline: Deadline) -> None:
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=deadline.left)
        for task in set(self._tasks):
            task.cancel()


class Life:
    """What happened, in order."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    def service(self, group: str, topic: str, to: str | None = None, **more: Any) -> Service:
        async def serve(lane: Lane) -> None:
            await run_pooled(lane, lambda lane, desk: Relay(lane, desk, to, self.gate))
            self.events.append(f"{group} drained")

        return Service(
            group=group,
            topics=[topic],
            serve=more.pop("serve", serve),
            start=more.pop("start", self.noting(f"{group} started")),
            close=more.pop("close", self.noting(f"{group} closed")),
            **more,
        )

    def noting(self, event: str) -> Callable[[], Awaitable[None]]:
        async def note() -> None:
            self.events.append(event)

        return note

    def two(self, **more: Any) -> list[Service]:
        return [
            self.service("fetcher", "urls.to_fetch", to="pages.parsed", **more),
            self.service("storer", "pages.parsed"),
        ]


def supervised(streams: Streams, services: Sequence[Service], timeout: float = 5.0) -> Supervisor:
    return Supervisor(streams, services, shutdown_timeout=timeout, registry=new_registry())


async def read_to_the_end(streams: Streams, topic: str, group: str, count: int) -> bool:
    edges = await streams.edges([(topic, group)])
    return sum(edge.committed for edge in edges) == count and all(edge.committed == edge.end for edge in edges)


async def test_services_start_run_drain_in_order_and_close(streams: EmbeddedStreams) -> None:
    life, stop = Life(), asyncio.Event()
    supervisor = supervised(streams, life.two())
    assert supervisor.ready() == (False, "starting")
    running = asyncio.create_task(supervisor.run(stop))
    await streams.publish(Send("urls.to_fetch", n % 2, b"x%d" % n) for n in range(50))
    await until(lambda: read_to_the_end(streams, "pages.parsed", "storer", 50))
    assert supervisor.ready() == (True, "running")
    assert supervisor.status()["services"]["storer"] == {"lanes": [0, 1], "busy": 0}
    stop.set()
    await running
    assert supervisor.ready() == (False, "stopped")
    assert life.events == [
        "fetcher started",
        "storer started",
        *["fetcher drained"] * 2,
        *["storer drained"] * 2,
        "fetcher closed",
        "storer closed",
    ]


async def test_what_is_under_way_at_a_stop_is_finished_and_passed_on(streams: EmbeddedStreams) -> None:
    life, stop = Life(), asyncio.Event()
    life.gate.clear()
    supervisor = supervised(streams, [life.service("fetcher", "urls.to_fetch", to="pages.parsed", busy=lambda: 1)])
    running = asyncio.create_task(supervisor.run(stop))
    await streams.publish([Send("urls.to_fetch", 0, b"x")])
    await until(lambda: supervisor.ready()[0])
    assert supervisor.busy() == 1
    await asyncio.sleep(0.3)  # taken on; nothing outside the lane shows it
    stop.set()
    await asyncio.sleep(0.05)
    assert supervisor.ready() == (False, "stopping")
    life.gate.set()
    await running
    assert await read_to_the_end(streams, "urls.to_fetch", "fetcher", 1)


async def test_what_does_not_finish_in_time_is_left_for_the_next_start(streams: EmbeddedStreams) -> None:
    life, stop = Life(), asyncio.Event()
    life.gate.clear()
    running = asyncio.create_task(supervised(streams, life.two(), timeout=0.2).run(stop))
    await streams.publish([Send("urls.to_fetch", 0, b"x")])
    await asyncio.sleep(0.3)
    stop.set()
    async with asyncio.timeout(5):
        await running
    assert not await read_to_the_end(streams, "urls.to_fetch", "fetcher", 1)
    assert life.events[-2:] == ["fetcher closed", "storer closed"]


async def test_a_stop_before_the_start_starts_nothing(streams: EmbeddedStreams) -> None:
    life, stop = Life(), asyncio.Event()
    stop.set()
    await supervised(streams, life.two()).run(stop)
    assert life.events == []


async def test_a_stop_does_not_wait_for_a_start_that_hangs(streams: EmbeddedStreams) -> None:
    life, stop = Life(), asyncio.Event()
    never = asyncio.Event()

    async def hang() -> None:
        await never.wait()

    running = asyncio.create_task(supervised(streams, life.two(start=hang)).run(stop))
    await asyncio.sleep(0.05)
    stop.set()
    async with asyncio.timeout(5):
        await running
    assert life.events == ["fetcher closed"]


async def test_a_failing_start_closes_what_was_opened_and_is_raised(streams: EmbeddedStreams) -> None:
    life = Life()

    async def fail() -> None:
        raise UsageError("no index")

    services = [life.service("fetcher", "urls.to_fetch"), life.service("storer", "pages.parsed", start=fail)]
    with pytest.raises(UsageError, match="no index"):
        await supervised(streams, services).run(asyncio.Event())
    assert life.events == ["fetcher started", "fetcher closed", "storer closed"]


async def test_a_failing_lane_ends_everything_and_is_raised(streams: EmbeddedStreams) -> None:
    life = Life()

    async def fail(lane: Lane) -> None:
        raise ExceptionGroup("", [KeyError("x"), Fenced(f"lane {lane.partition}")])

    services = [life.service("fetcher", "urls.to_fetch"), life.service("storer", "pages.parsed", serve=fail)]
    async with asyncio.timeout(10):
        with pytest.raises(Fenced, match="lane"):
            await supervised(streams, services).run(asyncio.Event())
    assert life.events.count("fetcher drained") == 2
    assert life.events[-2:] == ["fetcher closed", "storer closed"]


async def test_a_failing_background_task_ends_everything_and_one_that_returns_does_not(
    streams: EmbeddedStreams,
) -> None:
    life, go = Life(), asyncio.Event()

    async def fail() -> None:
        await go.wait()
        raise FatalError("pool broken")

    services = [life.service("fetcher", "urls.to_fetch", background=[life.noting("done"), fail])]
    supervisor = supervised(streams, services)
    running = asyncio.create_task(supervisor.run(asyncio.Event()))
    await until(lambda: "done" in life.events)
    await asyncio.sleep(0.05)
    assert supervisor.ready() == (True, "running")
    go.set()
    with pytest.raises(FatalError, match="pool broken"):
        await running
    assert life.events[-1] == "fetcher closed"


async def test_background_tasks_live_until_the_lanes_have_drained(streams: EmbeddedStreams) -> None:
    life, stop = Life(), asyncio.Event()

    async def forever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            life.events.append("background cancelled")

    supervisor = supervised(streams, [life.service("fetcher", "urls.to_fetch", background=[forever])])
    running = asyncio.create_task(supervisor.run(stop))
    await until(lambda: supervisor.ready()[0])
    await asyncio.sleep(0.05)
    stop.set()
    await running
    assert life.events[-2:] == ["background cancelled", "fetcher closed"]
    assert life.events.index("fetcher drained") < life.events.index("background cancelled")


async def test_an_error_of_closing_is_raised_unless_there_was_one_before(streams: EmbeddedStreams) -> None:
    life, stop = Life(), asyncio.Event()

    async def fail() -> None:
        raise OSError(28, "No space left on device")

    services = life.two(close=fail)
    supervisor = supervised(streams, services)
    running = asyncio.create_task(supervisor.run(stop))
    await until(lambda: supervisor.ready()[0])
    stop.set()
    with pytest.raises(OSError, match="No space left"):
        await running
    assert life.events[-1] == "storer closed"


async def test_a_cancelled_supervisor_still_closes(streams: EmbeddedStreams) -> None:
    life = Life()
    supervisor = supervised(streams, life.two())
    running = asyncio.create_task(supervisor.run(asyncio.Event()))
    await until(lambda: supervisor.ready()[0])
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert life.events[-2:] == ["fetcher closed", "storer closed"]


async def test_a_broken_status_is_half_an_answer(streams: EmbeddedStreams) -> None:
    life = Life()

    def broken() -> dict[str, Any]:
        raise RuntimeError("no")

    status = supervised(streams, [life.service("fetcher", "urls.to_fetch", status=broken)]).status()
    assert status == {
        "state": "starting",
        "services": {"fetcher": {"lanes": [], "busy": 0, "error": "RuntimeError('no')"}},
    }


class HangingMember:
    """Neither runs out nor stops, and shrugs off one cancellation: an engine at its worst."""

    lanes: Sequence[Lane] = ()
    stalled = None

    async def run(self) -> None:
        await self._hang()

    async def stop(self, deadline: Deadline) -> None:
        await self._hang()

    async def _hang(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()


class HangingStreams:
    partitions = 1

    async def join(self, group: str, topics: Sequence[str], serve: Serve, **_: Any) -> HangingMember:
        return HangingMember()


async def test_it_never_hangs_past_the_deadline_and_a_few_seconds() -> None:
    life, stop = Life(), asyncio.Event()

    async def hang() -> None:
        await asyncio.Event().wait()

    services = [*life.two(), life.service("parser", "pages.fetched", close=hang, background=[hang])]
    supervisor = supervised(HangingStreams(), services, timeout=0.1)  # type: ignore[arg-type]
    running = asyncio.create_task(supervisor.run(stop))
    await until(lambda: supervisor.ready()[0])
    stop.set()
    began = time.monotonic()
    async with asyncio.timeout(20):
        await running
    assert life.events[-2:] == ["fetcher closed", "storer closed"]
    assert time.monotonic() - began < 15  # far from a hang; the bound itself is no matter of a test
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


async def test_a_group_that_leaves_unasked_is_an_error() -> None:
    class Leaving(HangingMember):
        async def run(self) -> None:
            return

        async def stop(self, deadline: Deadline) -> None:
            return

    class LeavingStreams(HangingStreams):
        async def join(self, group: str, topics: Sequence[str], serve: Serve, **_: Any) -> HangingMember:
            return Leaving()

    life = Life()
    with pytest.raises(FatalError, match="fetcher left its group unasked"):
        await supervised(LeavingStreams(), [life.service("fetcher", "urls.to_fetch")]).run(asyncio.Event())  # type: ignore[arg-type]
    assert life.events == ["fetcher started", "fetcher closed"]
