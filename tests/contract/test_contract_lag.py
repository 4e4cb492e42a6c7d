"""Lag reaches exactly zero on every edge and stays there: completion is proved with it."""

import asyncio

from headrace_runtime.streams.seams import Lane, Send, Streams, Unit
from headrace_schemas.topics import EDGES, TOPICS
from tests.contract.engines import PARTITIONS, Engine
from tests.contract.ledger import EDGES as LEDGER_EDGES
from tests.contract.ledger import World, serve_fetcher, serve_ledger, until_complete
from tests.contract.serving import Reader, serving, until, until_read

LINKS, TASKS, RESULTS = "links.discovered", "urls.to_fetch", "fetch.results"


async def test_a_fresh_log_has_no_lag_on_any_edge(streams: Streams) -> None:
    edges = await streams.edges(EDGES)

    assert len(edges) == sum(PARTITIONS for _ in EDGES)
    assert all(edge.committed == edge.end for edge in edges)
    assert {edge.topic for edge in edges} == {name for name, topic in TOPICS.items() if topic.readers}


async def test_what_nobody_has_read_is_lag_also_for_a_group_that_never_joined(streams: Streams) -> None:
    await streams.publish([Send(TASKS, 1, b"%d" % i) for i in range(5)])

    edges = await streams.edges([(TASKS, "fetcher")])

    assert [edge.end - edge.committed for edge in edges] == [0, 5, 0, 0]


async def test_a_record_is_lag_until_it_is_done(streams: Streams) -> None:
    await streams.publish([Send(TASKS, 0, b"%d" % i) for i in range(5)])
    allowed = asyncio.Event()
    taken = asyncio.Event()

    async def serve(lane: Lane) -> None:
        while lane.stopping is None:
            records = await lane.poll(10, 0.1)
            if records:
                taken.set()
                await allowed.wait()
                unit = Unit()
                unit.done.extend(records)
                await lane.commit(unit)

    async with serving(streams, "fetcher", [TASKS], serve):
        await taken.wait()
        await asyncio.sleep(0.3)
        (first, *_) = await streams.edges([(TASKS, "fetcher")])
        allowed.set()
        await until_read(streams, [(TASKS, "fetcher")])

    assert first.end - first.committed == 5


async def test_the_oldest_record_not_done_is_where_lag_begins(streams: Streams) -> None:
    await streams.publish([Send(TASKS, 0, b"%d" % i) for i in range(10)])
    reader = Reader(done=lambda record: record.value != b"4")
    async with serving(streams, "fetcher", [TASKS], reader.serve):
        await until(lambda: len(reader.records) == 10)
        await asyncio.sleep(0.3)
        (edge, *_) = await streams.edges([(TASKS, "fetcher")])

    assert edge.end - edge.committed == 6


async def test_lag_is_zero_on_every_edge_when_the_work_is_done_and_stays_zero(engine: Engine) -> None:
    async with engine.opened() as streams:
        await streams.publish(World(PARTITIONS, urls=100).links())
        async with (
            serving(streams, "frontier", [LINKS, RESULTS], serve_ledger, stateful=True),
            serving(streams, "fetcher", [TASKS], serve_fetcher(0.005)),
        ):
            await until_complete(streams)
            scans = []
            for _ in range(10):
                scans.append(await streams.edges(LEDGER_EDGES))
                await asyncio.sleep(0.05)
    async with engine.opened() as streams:
        scans.append(await streams.edges(LEDGER_EDGES))

    assert all(scan == scans[0] for scan in scans)
    assert all(edge.committed == edge.end > 0 for edge in scans[0])
