"""The parser as a service on a lane: what it commits, how it drains, and on a real log what comes out."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from headrace_parser.handler import LaneWorker
from headrace_parser.pool import ParserPool
from headrace_parser.service import build
from headrace_runtime.clock import Deadline, ManualClock, SystemClock
from headrace_runtime.control import ControlWatch
from headrace_runtime.service import Parts
from headrace_runtime.streams.loops import run_pooled
from headrace_runtime.streams.open import open_streams
from headrace_runtime.streams.seams import Lane, Record, Send, Serve, StateView, Streams, Unit
from headrace_schemas import codec
from headrace_schemas.errors import FatalError, TooNew
from headrace_schemas.messages import DeadLetter, DiscoveredLinks, NotModified, ParsedPage
from headrace_schemas.urls import Partitioner
from tests.parser.fetched import fetched, running, settings


class ScriptedLane:
    """Gives its records, keeps the units committed, stops when told."""

    group, partition, linger = "parser", 3, 0.0

    def __init__(self, values: list[bytes]) -> None:
        self.records = [Record("pages.fetched", 3, n, b"%d" % n, value, 0.0) for n, value in enumerate(values)]
        self.units: list[Unit] = []
        self.stopping: Deadline | None = None
        self._waiting = list(self.records)
        self._done = asyncio.Event()

    @property
    def state(self) -> StateView:
        raise TypeError

    async def poll(self, limit: int, timeout: float) -> list[Record]:
        taken, self._waiting = self._waiting[:limit], self._waiting[limit:]
        await asyncio.sleep(0 if taken else 0.01)
        return taken

    async def commit(self, unit: Unit) -> None:
        self.units.append(unit)
        if len(self.done) == len(self.records):
            self._done.set()

    def owned(self) -> bool:
        return True

    @property
    def done(self) -> list[int]:
        return [record.offset for unit in self.units for record in unit.done]

    def sent(self, topic: str) -> list[Send]:
        return [send for unit in self.units for send in unit.sends if send.topic == topic]

    async def all_done(self) -> None:
        async with asyncio.timeout(30):
            await self._done.wait()


@asynccontextmanager
async def served(lane: ScriptedLane, pool: ParserPool) -> AsyncIterator["asyncio.Task[None]"]:
    def make(lane: Lane, desk: object) -> LaneWorker:
        return LaneWorker(lane, desk, pool, ManualClock(9.0))  # type: ignore[arg-type]

    task = asyncio.create_task(run_pooled(lane, make, width=256))
    try:
        yield task
    finally:
        lane.stopping = lane.stopping or Deadline(0.0)
        await asyncio.gather(task, return_exceptions=True)


def decoded(units: list[Unit], topic: str) -> list[Any]:
    return [codec.decode(topic, send.value) for unit in units for send in unit.sends if send.topic == topic]


def page(n: int, deed: str = "") -> bytes:
    return codec.encode(fetched(b"<a href=/next>", f"http://site.test/{n}{deed}", fetch_id=n))


async def test_every_page_is_committed_once_with_what_came_of_it() -> None:
    lane = ScriptedLane([page(n) for n in range(100)])
    async with running(settings(workers=2)) as pool, served(lane, pool):
        await lane.all_done()
    assert sorted(lane.done) == list(range(100))
    messages: list[ParsedPage] = decoded(lane.units, "pages.parsed")
    assert sorted(message.fetch_id for message in messages) == list(range(100))
    assert {send.partition for send in lane.sent("pages.parsed")} == {3}
    found: list[DiscoveredLinks] = [
        codec.decode("links.discovered", send.value) for send in lane.sent("links.discovered")
    ]
    assert sum(len(message.links) for message in found) == 100
    assert len(found) < 50, "links of several pages travel together"


async def test_a_page_is_never_committed_without_its_links() -> None:
    lane = ScriptedLane([page(n) for n in range(60)])
    async with running(settings(workers=2)) as pool, served(lane, pool):
        await lane.all_done()
    for unit in lane.units:
        links = [
            codec.decode("links.discovered", send.value) for send in unit.sends if send.topic == "links.discovered"
        ]
        referrers = {link.referrer for message in links for link in message.links}
        assert referrers == {f"http://site.test/{record.offset}" for record in unit.done}


async def test_bad_pages_and_bad_records_are_dead_lettered_and_passed_over() -> None:
    values = [page(n) for n in range(12)]
    values[2] = b"no header"
    values[4] = page(4)[:6] + b"\xc1"
    values[6] = page(6, "?raise")
    values[8] = codec.encode(NotModified(8, "http://site.test/8", b"k" * 16, 0.0))
    values[10] = page(10, "?segfault")
    lane = ScriptedLane(values)
    async with running() as pool, served(lane, pool):
        await lane.all_done()
    letters: list[DeadLetter] = decoded(lane.units, "dead.letters")
    assert sorted(letter.offset for letter in letters) == [2, 4, 6, 10]
    assert all(letter.value == values[letter.offset] and letter.reason and letter.at == 9.0 for letter in letters)
    verdicts = {message.fetch_id: message.verdict for message in decoded(lane.units, "pages.parsed")}
    assert verdicts == {n: "crashed" if n in (6, 10) else "ok" for n in range(12) if n not in (2, 4, 8)}
    for unit in lane.units:
        buried = {
            codec.decode("dead.letters", send.value).offset for send in unit.sends if send.topic == "dead.letters"
        }
        assert buried <= {record.offset for record in unit.done}, "in the unit that passes over it"


async def test_a_record_of_a_newer_release_stops_the_lane() -> None:
    lane = ScriptedLane([b"H\xff" + page(0)[2:]])
    async with running() as pool, served(lane, pool) as task:
        with pytest.raises(TooNew):
            await task
    assert lane.done == []


async def test_a_message_that_only_a_newer_release_knows_stops_the_lane_and_is_not_buried() -> None:
    unknown = page(0)[:6] + msgspec.msgpack.encode({"type": "screenshot", "fetch_id": 1})
    lane = ScriptedLane([page(0), unknown, page(1)])
    async with running() as pool, served(lane, pool) as task:
        with pytest.raises(TooNew, match="'screenshot'"):
            await task
    assert not decoded(lane.units, "dead.letters")
    assert 1 not in lane.done


async def test_a_stopping_lane_finishes_what_is_under_way_and_starts_nothing_more() -> None:
    lane = ScriptedLane([page(n, "?slow=0.05") for n in range(100)])
    async with running() as pool, served(lane, pool) as task:
        async with asyncio.timeout(20):
            while not lane.done:
                await asyncio.sleep(0.01)
        lane.stopping = Deadline(10.0)
        await task
        assert pool.busy == 0
    assert 0 < len(lane.done) < 100
    assert len(lane.sent("pages.parsed")) == len(lane.done)


async def test_a_drain_ends_at_its_deadline_and_late_replies_go_nowhere() -> None:
    lane = ScriptedLane([page(0, "?slow=2.0")])
    async with running() as pool:
        async with served(lane, pool) as task:
            async with asyncio.timeout(20):
                while not pool.busy:
                    await asyncio.sleep(0.01)
            lane.stopping = Deadline(0.1)
            await task
            assert pool.busy == 1, "it did not wait for the page"
        reply = await pool.submit(page(1))
    assert reply.verdict == "ok"
    assert lane.units == []


async def test_a_long_lane_does_not_starve_a_short_one() -> None:
    long, short = ScriptedLane([page(n, "?slow=0.02") for n in range(200)]), ScriptedLane([page(0)])
    async with running() as pool, served(long, pool):
        async with asyncio.timeout(20):
            while not long.done:
                await asyncio.sleep(0.01)
        async with served(short, pool):
            await short.all_done()
            assert len(long.done) < 100


async def test_a_pool_that_gives_up_fails_its_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    lane = ScriptedLane([page(0, "?hang")])
    async with running() as pool, served(lane, pool) as task:
        await asyncio.sleep(0.1)
        monkeypatch.setattr("sys.executable", "/nonexistent/python")
        for worker in list(pool._workers):
            worker.kill()
        with pytest.raises(FatalError):
            await task


async def test_on_a_log_pages_go_in_and_facts_and_links_come_out(tmp_path: Path) -> None:
    chosen = settings(workers=1, partitions=4)
    streams = await open_streams(chosen, tmp_path)
    control = await ControlWatch.open(streams)
    service = build(chosen, Parts(streams, control, SystemClock(), CollectorRegistry(), tmp_path))
    partitioner = Partitioner(4)
    urls = [f"http://host{n}.test/" for n in range(40)]
    body = b"<title>t</title><a href=/own><a href=http://host0.test/shared>"
    await streams.publish(
        [Send("pages.fetched", partitioner.partition(url), codec.encode(fetched(body, url), 5)) for url in urls]
    )
    parsed: list[Record] = []
    found: list[Record] = []
    try:
        await service.start()
        async with (
            member(streams, service.group, service.topics, service.serve),
            member(streams, "storer", ["pages.parsed"], reader(parsed)),
            member(streams, "frontier", ["links.discovered"], reader(found)),
            asyncio.timeout(30),
        ):
            await read_to_the_end(streams)
        assert service.busy() == 0
    finally:
        await service.close()
        await control.close()
        await streams.close()
    assert {codec.decode("pages.parsed", record.value).url for record in parsed} == set(urls)
    for record in parsed:
        assert partitioner.partition(codec.decode("pages.parsed", record.value).url) == record.partition
    links = [(record.partition, link) for record in found for link in codec.decode(record.topic, record.value).links]
    assert {link.url for _, link in links} == {f"{url}own" for url in urls} | {"http://host0.test/shared"}
    assert all(partitioner.partition(link.url) == partition for partition, link in links)
    assert all(codec.revision_of(record.value) == 5 for record in parsed + found)


async def read_to_the_end(streams: Streams) -> None:
    edges = [("pages.fetched", "parser"), ("links.discovered", "frontier"), ("pages.parsed", "storer")]
    while any(edge.committed < edge.end for edge in await streams.edges(edges)):
        await asyncio.sleep(0.02)


def reader(into: list[Record]) -> Serve:
    async def serve(lane: Lane) -> None:
        while lane.stopping is None:
            records = await lane.poll(100, 0.1)
            into.extend(records)
            unit = Unit()
            unit.done.extend(records)
            if records:
                await lane.commit(unit)

    return serve


@asynccontextmanager
async def member(streams: Streams, group: str, topics: Sequence[str], serve: Serve) -> AsyncIterator[None]:
    membership = await streams.join(group, topics, serve)
    task = asyncio.create_task(membership.run())
    try:
        yield
    finally:
        await membership.stop(Deadline(5.0))
        await task
