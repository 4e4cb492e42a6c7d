"""What a lane may hold is bounded: records, bytes, and the span of offsets its bookmark has to remember."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from headrace_runtime.clock import SystemClock
from headrace_runtime.streams.embedded.bookmark import Mark
from headrace_runtime.streams.embedded.engine import EmbeddedStreams
from headrace_runtime.streams.embedded.lane import ROOM, WINDOW
from headrace_runtime.streams.seams import Lane, Record, Send, Unit
from tests.contract.serving import serving, until, until_read

TASKS, PAGES = "urls.to_fetch", "pages.fetched"


async def test_one_poll_brings_about_sixteen_megabytes_at_the_most(tmp_path: Path) -> None:
    streams = await EmbeddedStreams.open(tmp_path / "log", partitions=1, sync="none", keep=0.0, clock=SystemClock())
    page = bytes(1_500_000)
    for _ in range(30):
        await streams.publish([Send(PAGES, 0, page)])
    polls: list[int] = []

    async def serve(lane: Lane) -> None:
        while lane.stopping is None:
            records = await lane.poll(100, 0.1)
            polls.append(sum(len(record.value) for record in records))
            unit = Unit()
            unit.done.extend(records)
            await lane.commit(unit)

    async with serving(streams, "parser", [PAGES], serve):
        await until_read(streams, [(PAGES, "parser")])
    await streams.close()

    assert sum(polls) == 30 * len(page)
    assert max(polls) <= ROOM + len(page)


async def test_a_lane_goes_no_further_than_its_window_past_what_is_not_done(tmp_path: Path) -> None:
    streams = await EmbeddedStreams.open(tmp_path / "log", partitions=1, sync="none", keep=0.0, clock=SystemClock())
    await streams.publish([Send(TASKS, 0, b"%d" % i) for i in range(WINDOW + 100)])
    taken: list[Record] = []
    empty = 0
    release = False

    async def serve(lane: Lane) -> None:
        nonlocal empty
        while lane.stopping is None:
            records = await lane.poll(1_000, 0.01)
            empty += not records
            taken.extend(records)
            unit = Unit()
            unit.done.extend(record for record in records if record.offset)
            if release:
                unit.done.append(taken[0])
            if not unit.empty:
                await lane.commit(unit)

    async with serving(streams, "fetcher", [TASKS], serve):
        await until(lambda: empty > 2)
        assert [record.offset for record in taken] == list(range(WINDOW))
        release = True
        await until_read(streams, [(TASKS, "fetcher")])
    await streams.close()

    assert [record.offset for record in taken] == list(range(WINDOW + 100))


@given(st.integers(0, 50), st.lists(st.lists(st.integers(0, 120))), st.integers(0, 150))
def test_a_mark_is_a_set_of_offsets(base: int, units: list[list[int]], start: int) -> None:
    mark, done = Mark(base), set(range(base))
    for offsets in units:
        mark = Mark.unpack(mark.plus(offsets).pack())
        done.update(offsets)
        prefix = next(i for i in range(1_000) if i not in done)
        assert mark.base == prefix
        assert all(mark.has(i) == (i in done) for i in range(200))
    moved = mark.from_(start)
    assert all(moved.has(i) == (i in done or i < start) for i in range(200))
    assert moved.base == next(i for i in range(1_000) if not moved.has(i))
