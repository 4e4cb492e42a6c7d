"""What only Kafka can do to a lane: fence it, forget its offsets, lose records, fail a send inside a transaction."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable

import pytest
from aiokafka.admin import RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from headrace_runtime.clock import Deadline
from headrace_runtime.streams.kafka.engine import KafkaStreams
from headrace_runtime.streams.seams import Lane, Record, Send, Unit
from headrace_schemas.errors import FatalError, Fenced, OffsetLost
from tests.contract.serving import PATIENCE, Reader, read, serving, until, until_read
from tests.kafka.place import Place

pytestmark = pytest.mark.kafka

LINKS, TASKS, PAGES = "links.discovered", "urls.to_fetch", "pages.fetched"


def tally(
    opened: list[Lane], before: Callable[[Lane, list[Record]], Awaitable[None]] | None = None
) -> Callable[[Lane], Awaitable[None]]:
    """Serves by counting in the state and sending each count on."""

    async def serve(lane: Lane) -> None:
        opened.append(lane)
        while lane.stopping is None:
            records = await lane.poll(10, 0.1)
            if not records:
                continue
            if before is not None:
                await before(lane, records)
            unit = Unit(lane.state)
            for _ in records:
                count = int(unit.get([b"count"])[0] or b"0") + 1
                unit.put(b"count", b"%d" % count)
                unit.send(Send(TASKS, lane.partition, b"%d" % count))
            unit.done.extend(records)
            await lane.commit(unit)

    return serve


async def counts(place: Place) -> list[int]:
    return [int(record.value) for record in await place.read_all(TASKS)]


async def test_a_fenced_lane_commits_nothing_and_is_opened_anew_once_the_group_confirms_it(place: Place) -> None:
    opened: list[Lane] = []
    fenced: list[BaseException] = []

    async def usurp(lane: Lane, records: list[Record]) -> None:
        if not fenced:
            async with place.producer(f"{place.prefix}frontier-{lane.partition}"):
                pass
            try:
                await lane.commit(_unit(lane, records))
            except Fenced as error:
                fenced.append(error)
                raise

    async with place.opened() as streams:
        await streams.publish([Send(LINKS, 0, b"%d" % i) for i in range(5)])
        async with serving(streams, "frontier", [LINKS], tally(opened, usurp), stateful=True):
            await until_read(streams, [(LINKS, "frontier")])

    assert len(fenced) == 1
    assert len(opened) == place.partitions + 1
    assert await counts(place) == [1, 2, 3, 4, 5]


def _unit(lane: Lane, records: list[Record]) -> Unit:
    unit = Unit(lane.state)
    unit.put(b"count", b"1000")
    unit.send(Send(TASKS, lane.partition, b"1000"))
    unit.done.extend(records)
    return unit


async def test_a_lost_folder_is_restored_from_the_changelog(place: Place) -> None:
    for _ in range(2):
        async with place.opened() as streams:
            await streams.publish([Send(LINKS, 0, b"%d" % i) for i in range(20)])
            async with serving(streams, "frontier", [LINKS], tally([]), stateful=True):
                await until_read(streams, [(LINKS, "frontier")])
        shutil.rmtree(place.state)

    assert await counts(place) == list(range(1, 41))


async def test_state_without_a_committed_offset_is_fatal(place: Place) -> None:
    """As after a week of an empty group with the broker's default retention of offsets."""
    async with place.producer() as producer:
        await producer.send_and_wait(place.prefix + "frontier.changelog", b"5", key=b"count", partition=0)
    async with place.opened() as streams:
        membership = await streams.join("frontier", [LINKS], tally([]), stateful=True)
        with pytest.raises(FatalError, match=r"frontier\[0\] has state but no committed offset"):
            await asyncio.wait_for(membership.run(), PATIENCE)


async def test_records_deleted_before_they_were_read_are_fatal_not_skipped(place: Place) -> None:
    async with place.opened() as streams:
        await streams.publish([Send(TASKS, 0, b"%d" % i) for i in range(10)])
        reader = Reader(done=lambda record: int(record.value) < 3)
        async with serving(streams, "fetcher", [TASKS], reader.serve):
            await until(lambda: len(reader.records) == 10)
        async with place.admin() as admin:
            await admin.delete_records({place.at(TASKS): RecordsToDelete(before_offset=6)})
        membership = await streams.join("fetcher", [TASKS], Reader().serve)
        with pytest.raises(OffsetLost, match=r"urls\.to_fetch"):
            await asyncio.wait_for(membership.run(), PATIENCE)


async def test_records_deleted_after_they_were_read_are_no_loss(streams: KafkaStreams, place: Place) -> None:
    await streams.publish([Send(TASKS, 0, b"%d" % i) for i in range(10)])
    await read(streams, "fetcher", [TASKS], 10)
    async with place.admin() as admin:
        await admin.delete_records({place.at(TASKS): RecordsToDelete(before_offset=10)})
    await streams.publish([Send(TASKS, 0, b"more")])
    assert [record.value for record in await read(streams, "fetcher", [TASKS], 1)] == [b"more"]
    assert [edge.committed for edge in await streams.edges([(TASKS, "parser")])] == [10, 0], "counted from its start"


async def test_after_a_clean_stop_nothing_that_was_done_comes_again(place: Place) -> None:
    async with place.opened() as streams:
        await streams.publish([Send(TASKS, 0, b"%d" % i) for i in range(300)])
        first = Reader(done=lambda record: int(record.value) % 3 > 0)
        async with serving(streams, "fetcher", [TASKS], first.serve):
            await until(lambda: len(first.records) == 300)
    async with place.opened() as streams:
        again = await read(streams, "fetcher", [TASKS], 100)

    assert [int(record.value) for record in again] == list(range(0, 300, 3))


async def test_a_send_that_fails_inside_a_transaction_undoes_all_of_it(place: Place) -> None:
    """aiokafka's commit would go through: it does not look at what became of the sends."""
    limit = ConfigResource(ConfigResourceType.TOPIC, place.prefix + PAGES, configs={"max.message.bytes": "1000"})
    async with place.admin() as admin:
        await admin.alter_configs([limit])

    async def serve(lane: Lane) -> None:
        while lane.stopping is None:
            records = await lane.poll(10, 0.1)
            if records:
                unit = _unit(lane, records)
                unit.send(Send(PAGES, 0, bytes(5_000)))
                await lane.commit(unit)

    async with place.opened() as streams:
        await streams.publish([Send(LINKS, 0, b"work")])
        membership = await streams.join("frontier", [LINKS], serve, stateful=True)
        with pytest.raises(FatalError, match=r"frontier\[0\]"):
            await asyncio.wait_for(membership.run(), PATIENCE)
        await membership.stop(Deadline(1.0))
        async with serving(streams, "frontier", [LINKS], tally([]), stateful=True):
            await until_read(streams, [(LINKS, "frontier")])

    assert await counts(place) == [1]


async def test_the_largest_message_goes_through_both_kinds_of_lane(place: Place) -> None:
    page = bytes(15 << 20)

    async def forward(lane: Lane) -> None:
        while lane.stopping is None:
            records = await lane.poll(10, 0.1)
            unit = Unit(lane.state if lane.group == "frontier" else None)
            for record in records:
                unit.send(Send(TASKS if record.topic == LINKS else PAGES, lane.partition, record.value))
            unit.done.extend(records)
            if records:
                await lane.commit(unit)

    async with place.opened() as streams:
        await streams.publish([Send(LINKS, 1, page)])
        async with serving(streams, "frontier", [LINKS], forward, stateful=True):
            async with serving(streams, "fetcher", [TASKS], forward):
                (record,) = await read(streams, "parser", [PAGES], 1)
        with pytest.raises(FatalError, match="too large"):
            await streams.publish([Send(PAGES, 0, bytes(16 << 20))])

    assert record.value == page


async def test_a_second_start_with_the_same_instance_is_back_at_once(place: Place) -> None:
    """A static member: without it a killed process waits for its own session to end."""
    async with place.opened(instance="0") as streams:
        await streams.publish([Send(TASKS, 0, b"first")])
        await read(streams, "fetcher", [TASKS], 1)
    reader = Reader()
    async with place.opened(instance="0") as streams:
        await streams.publish([Send(TASKS, 0, b"second")])
        async with serving(streams, "fetcher", [TASKS], reader.serve):
            await asyncio.wait_for(until(lambda: reader.records), place.session / 2)
    assert reader.values() == [b"second"]
