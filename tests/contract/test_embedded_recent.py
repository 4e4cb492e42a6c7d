"""What the embedded log keeps in memory is what the database holds, or nothing."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_runtime.clock import SystemClock
from headrace_runtime.streams.embedded.engine import EmbeddedStreams
from headrace_runtime.streams.embedded.recent import Recent
from headrace_runtime.streams.seams import Record, Send
from headrace_schemas.errors import UsageError
from tests.contract.serving import read

TASKS = "urls.to_fetch"


def record(offset: int, size: int) -> Record:
    return Record(TASKS, 0, offset, b"", bytes(size), 0.0)


Step = tuple[str, int, int]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 300), st.integers(0, 50)),
        st.tuples(st.just("drop"), st.integers(0, 400), st.just(0)),
        st.tuples(st.just("read"), st.integers(0, 400), st.integers(1, 200)),
    ),
    max_size=30,
)


@given(steps, st.integers(0, 4_000))
def test_a_read_is_a_run_of_the_log_from_where_it_was_asked_for_or_empty(given_steps: list[Step], room: int) -> None:
    recent, log, start = Recent(room), list[Record](), 0
    for what, first, second in given_steps:
        if what == "add":
            some = [record(len(log) + number, second) for number in range(first)]
            log += some
            recent.add(some)
        elif what == "drop":
            start = max(start, min(first, len(log)))
            recent.drop_before(start)
        else:
            stop = min(len(log), first + second)
            found = recent.read(first, stop, 50, 1_000) if first < stop else []
            assert found == log[first : first + len(found)]
            assert len(found) <= min(50, max(0, stop - first))
            assert not found or sum(len(each.value) for each in found[:-1]) < 1_000
            assert not found or first >= start
        held = recent.read(len(log) - 1, len(log), 1, 1) if log else []
        assert not held or held == [log[-1]]


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=200))
def test_what_fits_is_there_and_no_more(sizes: list[int]) -> None:
    recent = Recent(5_000)
    log = [record(number, size) for number, size in enumerate(sizes)]
    for each in log:
        recent.add([each])
    first = len(log)
    while first and sum(sizes[first - 1 :]) <= 5_000:
        first -= 1
    assert recent.read(first, len(log), 1_000, 1 << 30) == log[first:] if first < len(log) else True
    assert not first or recent.read(first - 1, len(log), 1_000, 1 << 30) == []


async def test_a_reader_that_is_far_behind_and_one_that_is_not_read_the_same(tmp_path: Path) -> None:
    """More than memory holds: the first records come from the database, the last from memory."""
    values = [b"%d " % number + bytes(60_000) for number in range(400)]
    streams = await EmbeddedStreams.open(tmp_path, partitions=1, sync="none", keep=0.0, clock=SystemClock())
    try:
        await streams.publish([Send(TASKS, 0, value, b"key") for value in values])
        assert not streams._logs[TASKS, 0].recent.read(0, 1, 1, 1), "the test is of no use where all fits"
        records = await read(streams, "fetcher", [TASKS], 400)
        assert [record.value for record in records] == values
        assert {record.key for record in records} == {b"key"}
        assert [record.offset for record in records] == list(range(400))
    finally:
        await streams.close()


async def test_a_unit_that_is_not_written_is_not_read_either(tmp_path: Path) -> None:
    streams = await EmbeddedStreams.open(tmp_path, partitions=1, sync="none", keep=0.0, clock=SystemClock())
    try:
        with pytest.raises(UsageError):
            await streams.publish([Send(TASKS, 0, b"never"), Send("no.such.topic", 0, b"")])
        assert streams._logs[TASKS, 0].recent.read(0, 1, 1, 1) == []
        await streams.publish([Send(TASKS, 0, b"first")])
        [record] = await read(streams, "fetcher", [TASKS], 1)
        assert (record.offset, record.value) == (0, b"first")
    finally:
        await streams.close()
