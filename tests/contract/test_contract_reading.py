"""Records come in order, once, and again only if they were not done."""

import asyncio
import random
import time

import pytest

from headrace_runtime.streams.seams import Lane, Record, Send, Streams, Unit
from headrace_schemas.errors import HeadraceError
from tests.contract.engines import PARTITIONS, Engine
from tests.contract.serving import Reader, read, serving, until, until_read

TASKS, PAGES, RESULTS = "urls.to_fetch", "pages.fetched", "fetch.results"


def place(record: Record) -> tuple[str, int, int]:
    return record.topic, record.partition, record.offset


async def test_a_record_arrives_as_it_was_sent(streams: Streams) -> None:
    before = time.time()
    await streams.publish([Send(TASKS, 2, b"value\0\xff", b"key"), Send(TASKS, 2, b"")])

    first, second = await read(streams, "fetcher", [TASKS], 2)

    assert (first.topic, first.partition, first.key, first.value) == (TASKS, 2, b"key", b"value\0\xff")
    assert (second.key, second.value) == (b"", b"")
    assert second.offset > first.offset
    assert before - 1 <= first.timestamp <= second.timestamp <= time.time() + 1


async def test_each_partition_is_read_in_the_order_it_was_written(streams: Streams) -> None:
    sends = [Send(TASKS, i % PARTITIONS, b"%d" % i) for i in range(2_000)]
    for i in range(0, len(sends), 100):
        await streams.publish(sends[i : i + 100])

    records = await read(streams, "fetcher", [TASKS], len(sends))

    for partition in range(PARTITIONS):
        values = [int(record.value) for record in records if record.partition == partition]
        assert values == list(range(partition, len(sends), PARTITIONS))


async def test_what_one_unit_sends_is_read_in_the_order_it_was_sent(streams: Streams) -> None:
    async def serve(lane: Lane) -> None:
        while lane.stopping is None:
            for record in await lane.poll(10, 0.1):
                unit = Unit()
                for i in range(200):
                    unit.send(Send(RESULTS, lane.partition, b"%d" % i))
                unit.done.append(record)
                await lane.commit(unit)

    await streams.publish([Send(TASKS, 1, b"go")])
    async with serving(streams, "fetcher", [TASKS], serve):
        records = await read(streams, "storer", [RESULTS], 200)

    assert [int(record.value) for record in records] == list(range(200))


async def test_no_poll_brings_more_than_it_was_asked_for_and_none_is_brought_twice(streams: Streams) -> None:
    await streams.publish([Send(TASKS, 0, b"%d" % i) for i in range(100)])
    sizes: list[int] = []
    seen: list[bytes] = []

    async def serve(lane: Lane) -> None:
        while lane.stopping is None:
            records = await lane.poll(7, 0.1)  # nothing is ever done
            sizes.append(len(records))
            seen.extend(record.value for record in records)

    async with serving(streams, "fetcher", [TASKS], serve):
        await until(lambda: len(seen) >= 100)
        await asyncio.sleep(0.3)

    assert max(sizes) <= 7
    assert seen == [b"%d" % i for i in range(100)]


async def test_a_flooded_topic_does_not_starve_the_other(streams: Streams) -> None:
    await streams.publish([Send(PAGES, 0, b"%d" % i) for i in range(3_000)])
    await streams.publish([Send(RESULTS, 0, b"mine")])
    polls: list[set[str]] = []

    async def serve(lane: Lane) -> None:
        while lane.stopping is None:
            records = await lane.poll(50, 0.1)
            if records:
                polls.append({record.topic for record in records})
                unit = Unit()
                unit.done.extend(records)
                await lane.commit(unit)

    async with serving(streams, "storer", [PAGES, RESULTS], serve):
        await until(lambda: any(RESULTS in topics for topics in polls))
        await until_read(streams, [(PAGES, "storer"), (RESULTS, "storer")])

    behind = next(i for i, topics in enumerate(polls) if RESULTS in topics)
    assert behind < len(polls) - 1, "it came before the flood was read"


async def test_a_group_goes_on_where_it_committed(engine: Engine) -> None:
    async with engine.opened() as streams:
        await streams.publish([Send(TASKS, i % PARTITIONS, b"old %d" % i) for i in range(40)])
        await read(streams, "fetcher", [TASKS], 40)
    async with engine.opened() as streams:
        await streams.publish([Send(TASKS, i % PARTITIONS, b"new %d" % i) for i in range(8)])
        records = await read(streams, "fetcher", [TASKS], 8)

    assert {record.value for record in records} == {b"new %d" % i for i in range(8)}


async def test_after_a_restart_comes_again_what_was_not_done_in_whatever_order_the_rest_was(engine: Engine) -> None:
    count = 400
    done = {b"%d" % i for i in random.Random(3).sample(range(count), 250)}
    async with engine.opened() as streams:
        await streams.publish([Send(TASKS, i % PARTITIONS, b"%d" % i) for i in range(count)])
        first = Reader(done=lambda record: record.value in done)
        async with serving(streams, "fetcher", [TASKS], first.serve):
            await until(lambda: len(first.records) == count)
            await asyncio.sleep(0.3)  # engines that commit offsets now and then
    async with engine.opened() as streams:
        again = Reader()
        async with serving(streams, "fetcher", [TASKS], again.serve):
            await until(lambda: {b"%d" % i for i in range(count)} - done <= set(again.values()))
            await until_read(streams, [(TASKS, "fetcher")])

    assert len(again.values()) == len(set(again.values()))
    if engine.exact:
        assert not set(again.values()) & done
    for partition in range(PARTITIONS):
        values = [int(value) for value in again.values(partition)]
        assert values == sorted(values)


async def test_another_group_reads_the_same_records_for_itself(streams: Streams) -> None:
    await streams.publish([Send(PAGES, i % PARTITIONS, b"%d" % i) for i in range(50)])

    parser = await read(streams, "parser", [PAGES], 50)
    storer = await read(streams, "storer", [PAGES], 50)

    assert sorted(parser, key=place) == sorted(storer, key=place)


async def test_retained_records_are_read_again_from_a_time_by_a_new_group(streams: Streams) -> None:
    await streams.publish([Send(PAGES, i % PARTITIONS, b"old") for i in range(40)])
    await read(streams, "parser", [PAGES], 40)
    await read(streams, "storer", [PAGES], 40)
    await asyncio.sleep(0.05)
    middle = time.time()
    await asyncio.sleep(0.05)
    await streams.publish([Send(PAGES, i % PARTITIONS, b"new") for i in range(12)])

    late = await read(streams, "replay-late", [PAGES], 12, since=middle)
    whole = await read(streams, "replay-whole", [PAGES], 52)
    nothing = await read(streams, "replay-nothing", [PAGES], 0, since=time.time() + 3_600)

    assert {record.value for record in late} == {b"new"}
    assert all(record.timestamp >= middle for record in late)
    assert [record.value for record in whole].count(b"old") == 40
    assert nothing == []


async def test_since_is_only_for_a_group_that_never_committed(streams: Streams) -> None:
    await streams.publish([Send(TASKS, 0, b"%d" % i) for i in range(10)])
    await read(streams, "fetcher", [TASKS], 10)
    await streams.publish([Send(TASKS, 0, b"later")])

    (record,) = await read(streams, "fetcher", [TASKS], 1, since=0.0)

    assert record.value == b"later"


@pytest.mark.parametrize("topic", ["no.such.topic", "crawl.control"])
async def test_a_topic_that_no_group_can_read_is_named(streams: Streams, topic: str) -> None:
    with pytest.raises(HeadraceError, match=topic):
        await streams.join("fetcher", [topic], Reader().serve)


async def test_a_record_for_a_topic_that_does_not_exist_is_refused_by_name(streams: Streams) -> None:
    with pytest.raises(HeadraceError, match=r"no\.such\.topic"):
        await streams.publish([Send("no.such.topic", 0, b"")])
    with pytest.raises(HeadraceError, match=r"no\.such\.topic"):
        await streams.edges([("no.such.topic", "fetcher")])
    with pytest.raises(HeadraceError, match=r"urls\.to_fetch"):
        await streams.table(TASKS)


async def test_what_was_published_is_there_for_the_next_process(engine: Engine) -> None:
    async with engine.opened() as streams:
        await streams.publish(Send(TASKS, i % PARTITIONS, b"%d" % i) for i in range(2_500))
    async with engine.opened() as streams:
        records: list[Record] = await read(streams, "fetcher", [TASKS], 2_500)

    assert {int(record.value) for record in records} == set(range(2_500))
