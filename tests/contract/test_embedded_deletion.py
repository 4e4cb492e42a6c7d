"""A record goes when every group has read it and it is old enough; not before, and not much later."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headrace_runtime.clock import ManualClock, SystemClock
from headrace_runtime.streams.embedded.commit import TRIM
from headrace_runtime.streams.embedded.database import Database
from headrace_runtime.streams.embedded.engine import EmbeddedStreams
from headrace_runtime.streams.seams import Lane, Send, Streams, Unit
from headrace_schemas.errors import OffsetLost
from tests.contract.serving import Reader, read, serving, until, until_read

LINKS, TASKS, PAGES = "links.discovered", "urls.to_fetch", "pages.fetched"


@asynccontextmanager
async def log(path: Path, clock: ManualClock | None = None, keep: float = 0.0) -> AsyncIterator[EmbeddedStreams]:
    streams = await EmbeddedStreams.open(
        path / "log", partitions=1, sync="none", keep=keep, clock=clock or SystemClock()
    )
    try:
        yield streams
    finally:
        await streams.close()


async def retained(streams: Streams, topic: str, group: str) -> list[bytes]:
    """What a group that has never read finds."""
    reader = Reader()
    async with serving(streams, group, [topic], reader.serve):
        await until_read(streams, [(topic, group)])
    return reader.values()


async def test_what_all_groups_have_read_is_gone_and_what_one_has_not_is_kept(tmp_path: Path) -> None:
    values = [b"%d" % i for i in range(3 * TRIM)]
    async with log(tmp_path) as streams:
        await streams.publish([Send(PAGES, 0, value) for value in values])
        await read(streams, "parser", [PAGES], len(values))
        assert await retained(streams, PAGES, "replay-1") == values, "the storer has yet to read it"
        await read(streams, "storer", [PAGES], len(values))
        assert len(await retained(streams, PAGES, "replay-2")) < TRIM
    async with log(tmp_path) as streams:
        assert await retained(streams, PAGES, "replay-3") == [], "the end of a run deletes the rest"
        await streams.publish([Send(PAGES, 0, b"next")])
        (record,) = await read(streams, "parser", [PAGES], 1)
        assert record.offset == len(values), "offsets go on"


async def test_a_record_done_out_of_order_goes_only_with_those_before_it(tmp_path: Path) -> None:
    async with log(tmp_path) as streams:
        await streams.publish([Send(TASKS, 0, b"%d" % i) for i in range(4 * TRIM)])
        reader = Reader(done=lambda record: record.value != b"7")
        async with serving(streams, "fetcher", [TASKS], reader.serve):
            await until(lambda: len(reader.records) == 4 * TRIM)
    async with log(tmp_path) as streams:
        assert [record.value for record in await read(streams, "fetcher", [TASKS], 1)] == [b"7"]
    async with log(tmp_path) as streams:
        assert await retained(streams, TASKS, "replay") == []


async def test_keep_holds_records_that_were_read_until_they_are_old(tmp_path: Path) -> None:
    clock = ManualClock()
    async with log(tmp_path, clock, keep=100.0) as streams:
        await streams.publish([Send(TASKS, 0, b"old")] * 2 * TRIM)
        clock.advance(60.0)
        await streams.publish([Send(TASKS, 0, b"new")] * 2 * TRIM)
        await read(streams, "fetcher", [TASKS], 4 * TRIM)
        assert len(await retained(streams, TASKS, "replay-1")) == 4 * TRIM
        clock.advance(60.0)
        await streams.publish([Send(TASKS, 0, b"newest")])
        await read(streams, "fetcher", [TASKS], 1)
        assert set(await retained(streams, TASKS, "replay-2")) == {b"new", b"newest"}
        clock.advance(1_000.0)
    async with log(tmp_path, clock, keep=100.0) as streams:
        assert await retained(streams, TASKS, "replay-3") == []


async def test_time_that_goes_back_does_not_confuse_the_log(tmp_path: Path) -> None:
    clock = ManualClock()
    async with log(tmp_path, clock, keep=1_000.0) as streams:
        await streams.publish([Send(TASKS, 0, b"first")])
        clock.advance(-500.0)
    async with log(tmp_path, clock, keep=1_000.0) as streams:
        await streams.publish([Send(TASKS, 0, b"second")])
        first, second = await read(streams, "fetcher", [TASKS], 2)
        assert first.timestamp == second.timestamp
        assert len(await read(streams, "replay", [TASKS], 2, since=first.timestamp)) == 2


async def test_dead_letters_are_kept_for_people_for_thirty_days(tmp_path: Path) -> None:
    clock = ManualClock()
    async with log(tmp_path, clock) as streams:
        await streams.publish([Send("dead.letters", 0, b"first")])
        clock.advance(29 * 86_400.0)
        await streams.publish([Send("dead.letters", 0, b"second")])
        assert await retained(streams, "dead.letters", "reader-1") == [b"first", b"second"]
        clock.advance(2 * 86_400.0)
        await streams.publish([Send("dead.letters", 0, b"third")])
        assert await retained(streams, "dead.letters", "reader-2") == [b"second", b"third"]


async def test_a_group_of_its_own_that_is_overtaken_by_deletion_goes_on_with_what_is_left(tmp_path: Path) -> None:
    async with log(tmp_path) as streams:
        await streams.publish([Send(TASKS, 0, b"%d" % i) for i in range(3 * TRIM)])
        slow, go_on = Reader(limit=10), asyncio.Event()

        async def serve(lane: Lane) -> None:
            slow.records += await lane.poll(10, 0.1)
            await go_on.wait()
            await slow.serve(lane)

        async with serving(streams, "replay", [TASKS], serve):
            await until(lambda: slow.records)
            await read(streams, "fetcher", [TASKS], 3 * TRIM)
            await streams.publish([Send(TASKS, 0, b"last")])
            go_on.set()
            await until(lambda: b"last" in slow.values())
            await until_read(streams, [(TASKS, "replay")])

    assert slow.values()[:10] == [b"%d" % i for i in range(10)]
    assert len(slow.values()) < 3 * TRIM


async def test_a_record_that_is_gone_though_it_was_not_read_is_fatal(tmp_path: Path) -> None:
    async with log(tmp_path) as streams:
        await streams.publish([Send(TASKS, 0, b"%d" % i) for i in range(5)])
    database = Database.open(tmp_path / "log", partitions=1)
    batch = database.batch()
    key = b"urls.to_fetch\0\0\0" + (2).to_bytes(8, "big")
    database.delete_records(batch, key, key + b"\0")
    database.write(batch)
    database.close()

    async with log(tmp_path) as streams:
        membership = await streams.join("fetcher", [TASKS], Reader(limit=1).serve)
        with pytest.raises(OffsetLost, match=r"urls\.to_fetch\[0\]: record 2 "):
            await asyncio.wait_for(membership.run(), 30)


async def test_disk_and_log_stay_small_however_much_passes_through(tmp_path: Path) -> None:
    """Small memtables, so that much of it does become files and these have to go again."""
    database = Database.open(tmp_path / "log", partitions=1, memtable=4 << 20, write_ahead=16 << 20)
    streams = EmbeddedStreams.over(database, partitions=1, sync="none", keep=0.0, clock=SystemClock())
    count = 0

    async def parse(lane: Lane) -> None:
        nonlocal count
        while lane.stopping is None:
            records = await lane.poll(64, 0.1)
            unit = Unit()
            unit.done.extend(records)
            if records:
                await lane.commit(unit)
                count += len(records)

    largest = 0
    async with serving(streams, "parser", [PAGES], parse), serving(streams, "storer", [PAGES], parse):
        for i in range(200):
            await streams.publish([Send(PAGES, 0, bytes(20_000))] * 50)  # 1 MB
            enough = 2 * 50 * i
            await until(lambda: count >= enough)  # noqa: B023
            if i % 10 == 9:
                largest = max(largest, _bytes_under(tmp_path))
    await streams.close()

    assert largest < 100_000_000, "of 200 MB that went through"
    shutil.rmtree(tmp_path / "log")


def _bytes_under(path: Path) -> int:
    total = 0
    for file in path.rglob("*"):
        try:
            total += file.stat().st_size
        except FileNotFoundError:  # deleted meanwhile
            continue
    return total
