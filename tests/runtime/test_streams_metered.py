"""What is counted at the seam, on the real embedded engine."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from headrace_runtime.clock import Deadline, SystemClock
from headrace_runtime.streams.embedded.engine import EmbeddedStreams
from headrace_runtime.streams.metered import LaneMeters, metered, watch_lag
from headrace_runtime.streams.poison import bury
from headrace_runtime.streams.seams import Edge, Lane, Send, Serve, Unit
from headrace_schemas.errors import LaneLost, Unavailable
from tests.runtime.waiting import until


@pytest.fixture
async def streams(tmp_path: Path) -> AsyncIterator[EmbeddedStreams]:
    streams = await EmbeddedStreams.open(tmp_path / "log", partitions=2, sync="none", keep=0.0, clock=SystemClock())
    yield streams
    await streams.close()


async def relay(lane: Lane) -> None:
    while lane.stopping is None:
        records = await lane.poll(10, 0.05)
        unit = Unit()
        unit.done.extend(records)
        for record in records:
            unit.send(Send("pages.fetched", record.partition, b"page"))
            unit.send_later(Send("fetch.results", record.partition, b"result"))
        if not unit.empty:
            await lane.commit(unit)
        await asyncio.sleep(lane.linger)


async def serving(streams: EmbeddedStreams, serve: Serve, done: Callable[[], bool]) -> None:
    member = await streams.join("fetcher", ["urls.to_fetch"], serve)
    running = asyncio.create_task(member.run())
    await until(done)
    await member.stop(Deadline(5.0))
    await running


async def test_commits_records_sends_and_lanes_are_counted(streams: EmbeddedStreams) -> None:
    registry = CollectorRegistry()

    def value(name: str, **labels: str) -> float:
        return registry.get_sample_value(name, labels) or 0.0

    def all_read() -> bool:
        return value("headrace_records_total", group="fetcher", topic="urls.to_fetch") == 20

    await streams.publish(Send("urls.to_fetch", n % 2, b"task") for n in range(20))
    seen: list[float] = []

    async def serve(lane: Lane) -> None:
        seen.append(value("headrace_lanes", group="fetcher"))
        await relay(lane)

    await serving(streams, metered(serve, registry), all_read)
    assert max(seen) == 2
    assert value("headrace_lanes", group="fetcher") == 0
    assert value("headrace_sends_total", topic="pages.fetched") == 20
    assert value("headrace_sent_bytes_total", topic="pages.fetched") == 20 * len(b"page")
    assert value("headrace_sends_total", topic="fetch.results") == 20
    assert value("headrace_unit_seconds_count", group="fetcher") >= 2
    assert value("headrace_lanes_lost_total", group="fetcher") == 0


async def test_a_commit_that_fails_counts_as_a_lost_lane_and_as_nothing_else(streams: EmbeddedStreams) -> None:
    registry = CollectorRegistry()
    lost = 0

    async def serve(lane: Lane) -> None:
        nonlocal lost
        if lost < 3:
            lost += 1
            raise LaneLost("in doubt")
        await relay(lane)

    def value(name: str, **labels: str) -> float:
        return registry.get_sample_value(name, labels) or 0.0

    await streams.publish([Send("urls.to_fetch", 0, b"task")])
    await serving(
        streams,
        metered(serve, registry),
        lambda: value("headrace_records_total", group="fetcher", topic="urls.to_fetch") == 1,
    )
    assert value("headrace_lanes_lost_total", group="fetcher") == 3
    assert value("headrace_lanes", group="fetcher") == 0


async def test_a_heartbeat_stands_still_with_the_slowest_lane_and_before_the_start(streams: EmbeddedStreams) -> None:
    registry, started, before = CollectorRegistry(), False, time.time()
    meters = LaneMeters.of(registry)
    meters.expect("fetcher", ["urls.to_fetch"], lambda: started)

    def beat() -> float:
        return registry.get_sample_value("headrace_heartbeat_timestamp_seconds", {"service": "fetcher"}) or 0.0

    first = beat()
    assert before <= first <= time.time()
    assert beat() == first
    started = True
    assert beat() > first  # it stands by, without a lane
    hung = asyncio.Event()

    async def serve(lane: Lane) -> None:
        if lane.partition == 0:
            await hung.wait()
        await relay(lane)

    beats: list[float] = []

    def stands_still() -> bool:
        beats.append(beat())
        return beats[-1] == beats[0] and time.time() - beats[-1] > 0.5 and len(set(beats)) == 1

    member = await streams.join("fetcher", ["urls.to_fetch"], metered(serve, registry))
    running = asyncio.create_task(member.run())
    await until(lambda: registry.get_sample_value("headrace_lanes", {"group": "fetcher"}) == 2)
    await until(stands_still)
    hung.set()
    await until(lambda: beat() > beats[0])
    await member.stop(Deadline(5.0))
    await running


async def test_what_may_be_counted_is_there_at_0_before_it_happens() -> None:
    registry = CollectorRegistry()
    LaneMeters.of(registry).expect("parser", ["pages.fetched"], lambda: True)
    for name, labels in (
        ("headrace_records_total", {"group": "parser", "topic": "pages.fetched"}),
        ("headrace_dead_letters_total", {"group": "parser", "topic": "pages.fetched"}),
        ("headrace_sends_total", {"topic": "pages.parsed"}),
        ("headrace_lanes_lost_total", {"group": "parser"}),
        ("headrace_unit_seconds_count", {"group": "parser"}),
    ):
        assert registry.get_sample_value(name, labels) == 0, name


async def test_a_dead_letter_is_counted_by_where_it_came_from(streams: EmbeddedStreams) -> None:
    registry = CollectorRegistry()

    async def bury_all(lane: Lane) -> None:
        while lane.stopping is None:
            unit = Unit()
            for record in await lane.poll(10, 0.05):
                unit.send(bury(record, lane.group, "no sense in it", 1.0))
                unit.done.append(record)
            if not unit.empty:
                await lane.commit(unit)

    def buried() -> float | None:
        labels = {"group": "fetcher", "topic": "urls.to_fetch"}
        return registry.get_sample_value("headrace_dead_letters_total", labels)

    await streams.publish([Send("urls.to_fetch", n % 2, b"task") for n in range(3)])
    await serving(streams, metered(bury_all, registry), lambda: buried() == 3)


async def test_several_services_share_the_series_of_one_registry(streams: EmbeddedStreams) -> None:
    one, other = CollectorRegistry(), CollectorRegistry()
    for registry in (one, one, other):
        assert metered(relay, registry) is not relay


async def test_lag_is_summed_over_partitions_and_falls_as_groups_read(streams: EmbeddedStreams) -> None:
    registry = CollectorRegistry()

    def lag(group: str) -> float | None:
        return registry.get_sample_value("headrace_lag", {"topic": "pages.fetched", "group": group})

    await streams.publish(Send("pages.fetched", n % 2, b"page") for n in range(7))
    edges = [("pages.fetched", "parser"), ("pages.fetched", "storer")]
    watching = asyncio.create_task(watch_lag(streams, edges, registry, interval=0.01))
    await until(lambda: (lag("parser"), lag("storer")) == (7.0, 7.0))

    async def read(lane: Lane) -> None:
        while lane.stopping is None:
            unit = Unit()
            unit.done.extend(await lane.poll(10, 0.05))
            if not unit.empty:
                await lane.commit(unit)

    member = await streams.join("parser", ["pages.fetched"], read)
    running = asyncio.create_task(member.run())
    await until(lambda: (lag("parser"), lag("storer")) == (0.0, 7.0))
    await member.stop(Deadline(5.0))
    await running
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


class Faulty:
    """Edges that cannot be had, for a while: an outage that the embedded engine does not have."""

    def __init__(self) -> None:
        self.asked, self.is_away = 0, True

    async def edges(self, edges: Iterable[tuple[str, str]]) -> list[Edge]:
        self.asked += 1
        if self.is_away:
            raise Unavailable("no broker")
        return [Edge("pages.fetched", "parser", 0, 1, 3)]


async def test_an_outage_is_said_once_and_outlived(caplog: pytest.LogCaptureFixture) -> None:
    registry, faulty = CollectorRegistry(), Faulty()
    watching = asyncio.create_task(
        watch_lag(faulty, [("pages.fetched", "parser")], registry, interval=0.001)  # type: ignore[arg-type]
    )
    with caplog.at_level(logging.WARNING):
        await until(lambda: faulty.asked > 5)
        assert [record.getMessage() for record in caplog.records] == ["lag unknown"]
        faulty.is_away = False
        await until(
            lambda: registry.get_sample_value("headrace_lag", {"topic": "pages.fetched", "group": "parser"}) == 2
        )
        faulty.is_away = True
        await until(lambda: len(caplog.records) == 2)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
