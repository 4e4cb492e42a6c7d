"""A table is the latest value per key, for everyone, without a group."""

from headrace_runtime.control import ControlWatch
from headrace_runtime.streams.seams import Lane, Send, Streams, Unit
from headrace_schemas import codec
from headrace_schemas.messages import Control, CrawlSettings
from headrace_schemas.topics import CONTROL_KEY
from tests.contract.engines import PARTITIONS, Engine
from tests.contract.serving import serving, until

PROGRESS, CONTROL, TASKS = "crawl.progress", "crawl.control", "urls.to_fetch"


async def test_a_table_holds_the_latest_value_of_each_key(streams: Streams) -> None:
    for i in range(10):
        await streams.publish([Send(PROGRESS, p, b"%d of %d" % (i, p), b"%d" % p) for p in range(PARTITIONS)])
    table = await streams.table(PROGRESS)

    assert dict(table.rows) == {b"%d" % p: b"9 of %d" % p for p in range(PARTITIONS)}
    await table.close()


async def test_an_empty_table_is_empty(streams: Streams) -> None:
    table = await streams.table(CONTROL)

    assert dict(table.rows) == {}
    await table.refresh()
    await table.close()


async def test_after_a_refresh_all_that_was_written_before_is_there(streams: Streams) -> None:
    table = await streams.table(CONTROL)
    for i in range(20):
        await streams.publish([Send(CONTROL, 0, b"%d" % i, b"key")])
        await table.refresh()
        assert table.rows[b"key"] == b"%d" % i
    await table.close()


async def test_a_watcher_hears_of_the_rows_there_are_and_of_each_that_comes(streams: Streams) -> None:
    await streams.publish([Send(CONTROL, 0, b"1", b"a")])
    table = await streams.table(CONTROL)
    heard: list[tuple[bytes, bytes]] = []
    table.watch(lambda key, value: heard.append((key, value)))
    await streams.publish([Send(CONTROL, 0, b"2", b"b")])
    await streams.publish([Send(CONTROL, 0, b"3", b"a")])
    await table.refresh()

    assert heard == [(b"a", b"1"), (b"b", b"2"), (b"a", b"3")]
    await table.close()
    await streams.publish([Send(CONTROL, 0, b"4", b"a")])
    assert len(heard) == 3


async def test_two_tables_of_one_topic_are_closed_apart(streams: Streams) -> None:
    one, two = await streams.table(CONTROL), await streams.table(CONTROL)
    await one.close()
    await streams.publish([Send(CONTROL, 0, b"value", b"key")])
    await two.refresh()

    assert two.rows[b"key"] == b"value"
    await two.close()


async def test_a_row_written_in_a_unit_of_work_is_seen(streams: Streams) -> None:
    async def serve(lane: Lane) -> None:
        while lane.stopping is None:
            unit = Unit(lane.state)
            for record in await lane.poll(10, 0.1):
                unit.put(b"key", record.value)
                unit.send(Send(PROGRESS, lane.partition, record.value, b"%d" % lane.partition))
                unit.done.append(record)
            if not unit.empty:
                await lane.commit(unit)

    table = await streams.table(PROGRESS)
    heard: list[bytes] = []
    table.watch(lambda key, value: heard.append(value))
    async with serving(streams, "frontier", ["links.discovered"], serve, stateful=True):
        await streams.publish([Send("links.discovered", 2, b"%d" % i) for i in range(30)])
        await until(lambda: table.rows.get(b"2") == b"29")
    assert heard[-1] == b"29"
    await table.close()


async def test_a_table_outlives_the_process(engine: Engine) -> None:
    async with engine.opened() as streams:
        await streams.publish(
            [Send(CONTROL, 0, b"1", b"a"), Send(CONTROL, 0, b"2", b"b"), Send(CONTROL, 0, b"3", b"a")]
        )
    async with engine.opened() as streams:
        table = await streams.table(CONTROL)
        assert dict(table.rows) == {b"a": b"3", b"b": b"2"}
        await table.close()


async def test_the_desired_state_of_the_crawl_is_followed(streams: Streams) -> None:
    watch = await ControlWatch.open(streams)
    assert watch.now.revision == 0
    control = Control(7, CrawlSettings(max_pages=5), mode="running")
    await streams.publish([Send(CONTROL, 0, codec.encode(control), CONTROL_KEY)])
    await watch.at_least(7)
    await watch.at_least(99)  # a claim that nothing in the topic bears out holds nobody up

    assert watch.now == control
    await watch.close()
