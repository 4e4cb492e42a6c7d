"""A unit of work becomes true as a whole, and its sends in their order."""

import tracemalloc
from collections.abc import Sequence

import pytest

from headrace_runtime.clock import SystemClock
from headrace_runtime.streams.loops import run_serial
from headrace_runtime.streams.poison import bury
from headrace_runtime.streams.seams import Lane, Record, Send, Streams, Unit
from headrace_schemas import codec
from headrace_schemas.errors import HeadraceError, LaneLost
from tests.contract.engines import PARTITIONS, Engine
from tests.contract.ledger import GARBAGE, World, check, dead_letters, serve_fetcher, serve_ledger, until_complete
from tests.contract.serving import read, serving, until, until_read

LINKS, TASKS, PAGES, RESULTS = "links.discovered", "urls.to_fetch", "pages.fetched", "fetch.results"


async def test_state_outputs_and_offsets_are_there_together_for_the_next_owner(engine: Engine) -> None:
    async def count(lane: Lane) -> None:
        while lane.stopping is None:
            records = await lane.poll(10, 0.1)
            unit = Unit(lane.state)
            for record in records:
                (old,) = unit.get([b"sum"])
                total = int(old or b"0") + int(record.value)
                unit.put(b"sum", b"%d" % total)
                unit.send(Send(TASKS, lane.partition, b"%d" % total))
                unit.done.append(record)
            if not unit.empty:
                await lane.commit(unit)

    for _ in range(2):
        async with engine.opened() as streams:
            async with serving(streams, "frontier", [LINKS], count, stateful=True):
                await streams.publish([Send(LINKS, 1, b"%d" % i) for i in range(1, 51)])
                await until_read(streams, [(LINKS, "frontier")])
    async with engine.opened() as streams:
        sums = await read(streams, "fetcher", [TASKS], 100)

    assert int(sums[-1].value) == 2 * sum(range(51))


async def test_large_records_are_handled_a_few_at_a_time_so_that_nobody_else_waits_for_long(streams: Streams) -> None:
    class Counting:
        def __init__(self, lane: Lane) -> None:
            self.lane = lane

        def handle(self, records: Sequence[Record], unit: Unit, now: float) -> float | None:
            if records:
                units.append([int(record.value[:1]) for record in records])
                unit.put(b"last", records[-1].value[:1])
            return None

        def committed(self) -> None:
            states.append(self.lane.state.get([b"last"])[0])

    units: list[list[int]] = []
    states: list[bytes | None] = []
    await streams.publish([Send(LINKS, 0, b"%d" % number + bytes(400_000)) for number in range(7)])

    async def serve(lane: Lane) -> None:
        await run_serial(lane, Counting(lane), SystemClock())

    async with serving(streams, "frontier", [LINKS], serve, stateful=True):
        await until_read(streams, [(LINKS, "frontier")])
    assert [number for unit in units for number in unit] == list(range(7))
    assert max(map(len, units)) <= 3
    assert states == [b"%d" % unit[-1] for unit in units], "each is true before the next one is begun"


async def test_a_unit_that_cannot_be_written_leaves_nothing_behind(streams: Streams) -> None:
    await streams.publish([Send(LINKS, 0, b"work")])
    seen: list[list[bytes | None]] = []

    async def serve(lane: Lane) -> None:
        if lane.partition:
            while lane.stopping is None:
                await lane.poll(1, 0.1)
            return
        records: list[Record] = []
        while not records:
            records = await lane.poll(10, 0.1)
        seen.append(lane.state.get([b"key"]))
        unit = Unit(lane.state)
        unit.put(b"key", b"value")
        unit.send(Send(TASKS, 0, b"output"))
        if len(seen) == 1:
            unit.send(Send("no.such.topic", 0, b""))
        unit.done.extend(records)
        try:
            await lane.commit(unit)
        except LaneLost:
            raise
        except HeadraceError as error:
            raise LaneLost(str(error)) from error
        while lane.stopping is None:
            await lane.poll(10, 0.1)

    async with serving(streams, "frontier", [LINKS], serve, stateful=True):
        await until_read(streams, [(LINKS, "frontier")])
    (output,) = await read(streams, "fetcher", [TASKS], 1)

    assert seen == [[None], [None]]
    assert output.value == b"output"


async def test_later_sends_come_behind_the_others(streams: Streams) -> None:
    await streams.publish([Send(TASKS, 0, b"%d" % i) for i in range(20)])

    async def fetch(lane: Lane) -> None:
        while lane.stopping is None:
            unit = Unit()
            for record in await lane.poll(10, 0.1):
                unit.send_later(Send(RESULTS, 0, b"result " + record.value))
                unit.send(Send(RESULTS, 0, b"page " + record.value))
                unit.done.append(record)
            if not unit.empty:
                await lane.commit(unit)

    async with serving(streams, "fetcher", [TASKS], fetch):
        records = await read(streams, "storer", [RESULTS], 40)

    place = {record.value: i for i, record in enumerate(records)}
    assert all(place[b"page %d" % i] < place[b"result %d" % i] for i in range(20))


async def test_a_stateless_lane_has_no_state(streams: Streams) -> None:
    refused: list[type[BaseException]] = []

    async def serve(lane: Lane) -> None:
        try:
            lane.state.get([b"key"])
        except TypeError as error:
            refused.append(type(error))
        while lane.stopping is None:
            await lane.poll(1, 0.1)

    async with serving(streams, "fetcher", [TASKS], serve):
        await until(lambda: len(refused) == PARTITIONS)


async def test_a_message_that_cannot_be_read_is_buried_and_the_lane_goes_on(streams: Streams) -> None:
    world = World(PARTITIONS, urls=60, poison=5)
    await streams.publish(world.links())

    async with serving(streams, "frontier", [LINKS, RESULTS], serve_ledger, stateful=True):
        async with serving(streams, "fetcher", [TASKS], serve_fetcher(0.005)):
            await until_complete(streams)
    letters = [codec.decode("dead.letters", record.value) for record in await dead_letters(streams, 5)]

    assert {(letter.topic, letter.key, letter.value, letter.group) for letter in letters} == {
        (LINKS, b"bad", GARBAGE, "frontier")
    }
    await check(streams, world, exact=True)


async def test_a_buried_message_says_where_it_lay(streams: Streams) -> None:
    await streams.publish([Send(TASKS, 3, b"fine"), Send(TASKS, 3, b"bad", b"key")])
    where: list[tuple[int, int]] = []

    async def serve(lane: Lane) -> None:
        while lane.stopping is None:
            unit = Unit()
            for record in await lane.poll(10, 0.1):
                if record.value == b"bad":
                    where.append((record.partition, record.offset))
                    unit.send(bury(record, lane.group, "it is bad", 1.0))
                unit.done.append(record)
            if not unit.empty:
                await lane.commit(unit)

    async with serving(streams, "fetcher", [TASKS], serve):
        (record,) = await dead_letters(streams, 1)
        await until_read(streams, [(TASKS, "fetcher")])
    letter = codec.decode("dead.letters", record.value)

    assert (letter.partition, letter.offset) == where[0]
    assert (letter.key, letter.reason) == (b"key", "it is bad")


@pytest.mark.parametrize("size", [0, 1_023, 1_024, 100_000, 8_000_000])
async def test_values_of_every_size_come_whole(streams: Streams, size: int) -> None:
    value = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    await streams.publish([Send(PAGES, 0, value, b"k" * min(size, 200))])

    (record,) = await read(streams, "parser", [PAGES], 1)

    assert record.value == value


async def test_each_partition_has_a_state_of_its_own(streams: Streams) -> None:
    await streams.publish([Send(LINKS, partition, b"%d" % partition) for partition in range(PARTITIONS)])
    found: dict[int, dict[bytes, bytes]] = {}

    async def serve(lane: Lane) -> None:
        while lane.stopping is None:
            unit = Unit(lane.state)
            for record in await lane.poll(10, 0.1):
                unit.put(b"own", record.value)
                unit.done.append(record)
            if not unit.empty:
                await lane.commit(unit)
                found[lane.partition] = dict(lane.state.scan(b"", b"\xff"))

    async with serving(streams, "frontier", [LINKS], serve, stateful=True):
        await until(lambda: len(found) == PARTITIONS)

    assert found == {partition: {b"own": b"%d" % partition} for partition in range(PARTITIONS)}


async def test_a_reader_far_behind_holds_no_more_than_it_asked_for(streams: Streams) -> None:
    """A producer far ahead of a slow consumer: what waits is in the log, not in memory."""
    page = bytes(200_000)
    for _ in range(20):
        await streams.publish([Send(PAGES, 0, page) for _ in range(20)])
    count = most = 0

    async def slow(lane: Lane) -> None:
        nonlocal count, most
        while lane.stopping is None:
            records = await lane.poll(10, 0.1)
            most = max(most, len(records))
            unit = Unit()
            unit.done.extend(records)
            await lane.commit(unit)
            count += len(records)

    tracemalloc.start()
    try:
        async with serving(streams, "parser", [PAGES], slow):
            await until(lambda: count == 400)
            await until_read(streams, [(PAGES, "parser")])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most <= 10
    assert peak < 40_000_000, "half of what was published"
