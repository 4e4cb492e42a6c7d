"""Members of a group share its partitions, and hand them over without losing or repeating anything."""

import asyncio

import pytest

from headrace_runtime.clock import Deadline
from headrace_runtime.streams.seams import Lane, Send, Streams, Unit
from headrace_schemas.errors import FatalError, LaneLost
from tests.contract.engines import PARTITIONS, Engine
from tests.contract.ledger import World, check, serve_fetcher, serve_ledger, until_complete
from tests.contract.serving import PATIENCE, Reader, serving, until, until_read

LINKS, TASKS, RESULTS = "links.discovered", "urls.to_fetch", "fetch.results"


def owned(*readers: Reader) -> list[set[int]]:
    """The partitions each has a living lane for."""
    return [{lane.partition for lane in reader.lanes if lane.stopping is None} for reader in readers]


async def test_one_member_serves_every_partition(streams: Streams) -> None:
    reader = Reader()
    async with serving(streams, "fetcher", [TASKS], reader.serve) as membership:
        await until(lambda: owned(reader) == [set(range(PARTITIONS))])
        assert {lane.partition for lane in membership.lanes} == set(range(PARTITIONS))
        assert all(lane.owned() and lane.group == "fetcher" and lane.linger >= 0 for lane in membership.lanes)

    assert not any(lane.owned() for lane in reader.lanes)
    assert not membership.lanes


async def test_two_members_split_the_partitions_and_the_one_left_gets_them_all(engine: Engine) -> None:
    one, two = Reader(), Reader()
    async with engine.opened() as streams, engine.beside(streams) as other:
        async with serving(streams, "fetcher", [TASKS], one.serve):
            await until(lambda: owned(one) == [set(range(PARTITIONS))])
            async with serving(other, "fetcher", [TASKS], two.serve):
                await until(lambda: [len(part) for part in owned(one, two)] == [PARTITIONS // 2] * 2, "halves")
                assert set.union(*owned(one, two)) == set(range(PARTITIONS))
                await streams.publish([Send(TASKS, i % PARTITIONS, b"%d" % i) for i in range(100)])
                await until_read(streams, [(TASKS, "fetcher")])
            await until(lambda: owned(one) == [set(range(PARTITIONS))])

    assert one.records
    assert two.records
    assert sorted(map(int, one.values() + two.values())) == list(range(100))


@pytest.mark.timeout(300)
async def test_members_come_and_go_under_load_and_nothing_is_lost_or_settled_twice(engine: Engine) -> None:
    world = World(PARTITIONS, urls=400)
    links = world.links()
    async with engine.opened() as streams, engine.beside(streams) as other:
        async with (
            serving(streams, "frontier", [LINKS, RESULTS], serve_ledger, stateful=True),
            serving(streams, "fetcher", [TASKS], serve_fetcher(0.02)),
        ):
            for i in range(4):
                part = links[i * len(links) // 4 : (i + 1) * len(links) // 4]
                await streams.publish(part)
                async with (
                    serving(other, "frontier", [LINKS, RESULTS], serve_ledger, stateful=True) as frontier,
                    serving(other, "fetcher", [TASKS], serve_fetcher(0.02)) as fetcher,
                ):
                    await until(lambda: frontier.lanes and fetcher.lanes, "a share for the second member")
                    await asyncio.sleep(0.1)
            await until_complete(streams)
    async with engine.opened() as streams:
        await check(streams, world, exact=engine.exact)


async def test_a_lost_lane_is_opened_anew_from_what_is_committed(streams: Streams) -> None:
    await streams.publish([Send(TASKS, 0, b"%d" % i) for i in range(10)])
    lanes: list[Lane] = []
    seen: list[list[bytes]] = []

    async def serve(lane: Lane) -> None:
        if lane.partition == 0:
            lanes.append(lane)
            seen.append([])
        while lane.stopping is None:
            records = await lane.poll(5, 0.1)
            if not records:
                continue
            seen[-1] += [record.value for record in records]
            unit = Unit()
            unit.done.extend(records[:3])
            await lane.commit(unit)
            if len(lanes) == 1:
                raise LaneLost("the commit after that was in doubt")
            rest = Unit()
            rest.done.extend(records[3:])
            await lane.commit(rest)

    async with serving(streams, "fetcher", [TASKS], serve):
        await until_read(streams, [(TASKS, "fetcher")])

    assert len({id(lane) for lane in lanes}) == len(lanes) >= 2
    assert not lanes[0].owned()
    assert seen[0] == [b"%d" % i for i in range(5)]
    assert [value for later in seen[1:] for value in later] == [b"%d" % i for i in range(3, 10)]


async def test_a_lane_that_was_given_up_commits_nothing_more(streams: Streams) -> None:
    await streams.publish([Send(TASKS, 0, b"work")])
    reader = Reader(done=lambda record: False)
    async with serving(streams, "fetcher", [TASKS], reader.serve):
        await until(lambda: reader.records)
    (dead,) = [lane for lane in reader.lanes if lane.partition == 0]
    unit = Unit()
    unit.done.extend(reader.records)

    with pytest.raises((LaneLost, FatalError)):
        await dead.commit(unit)
    assert await dead.poll(10, 0.0) == []
    assert sum(edge.end - edge.committed for edge in await streams.edges([(TASKS, "fetcher")])) > 0


async def test_what_serve_raises_comes_out_of_run(streams: Streams) -> None:
    await streams.publish([Send(TASKS, 1, b"work")])

    async def serve(lane: Lane) -> None:
        while lane.stopping is None:
            if await lane.poll(1, 0.1):
                raise FatalError("the disk is on fire")

    membership = await streams.join("fetcher", [TASKS], serve)
    with pytest.raises(FatalError, match="the disk is on fire"):
        await asyncio.wait_for(membership.run(), PATIENCE)
    await membership.stop(Deadline(1.0))


async def test_a_stop_waits_for_what_is_under_way(streams: Streams) -> None:
    await streams.publish([Send(TASKS, 0, b"%d" % i) for i in range(20)])
    begun = asyncio.Event()

    async def serve(lane: Lane) -> None:
        records = []
        while lane.stopping is None:
            records += await lane.poll(20, 0.1)
            if records:
                begun.set()
        assert lane.stopping.left > 0
        await asyncio.sleep(0.1)
        unit = Unit()
        unit.done.extend(records)
        if records:
            await lane.commit(unit)

    async with serving(streams, "fetcher", [TASKS], serve):
        await begun.wait()

    assert sum(edge.end - edge.committed for edge in await streams.edges([(TASKS, "fetcher")])) == 0


async def test_a_stop_does_not_wait_for_ever(streams: Streams) -> None:
    async def deaf(lane: Lane) -> None:
        await asyncio.Event().wait()

    async with serving(streams, "fetcher", [TASKS], deaf, drain=0.1) as membership:
        await until(lambda: membership.lanes)


async def test_a_poll_ends_at_once_when_its_lane_is_stopped(streams: Streams) -> None:
    polls: list[float] = []

    async def serve(lane: Lane) -> None:
        while lane.stopping is None:
            await lane.poll(1, 3_600.0)
            polls.append(lane.partition)

    async with serving(streams, "fetcher", [TASKS], serve) as membership:
        await until(lambda: len(membership.lanes) == PARTITIONS)
        await asyncio.sleep(0.05)

    assert len(polls) == PARTITIONS
