"""A view of the state: the committed entries of one partition, by key and in key order."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

import pytest

from headrace_runtime.streams.memory import MemoryState
from headrace_runtime.streams.seams import Lane, StateView, Unit
from tests.contract.engines import Engine
from tests.contract.serving import serving, until


class Place(NamedTuple):
    state: StateView
    commit: Callable[[Unit], Awaitable[None]]


@pytest.fixture
async def memory() -> Place:
    state = MemoryState()

    async def commit(unit: Unit) -> None:
        state.apply(unit)

    return Place(state, commit)


@pytest.fixture
async def lane_of_engine(engine: Engine) -> AsyncIterator[Place]:
    lanes: list[Lane] = []

    async def serve(lane: Lane) -> None:
        if lane.partition == 1:
            lanes.append(lane)
        while lane.stopping is None:
            await lane.poll(1, 0.1)

    async with engine.opened() as streams:
        async with serving(streams, "frontier", ["links.discovered"], serve, stateful=True):
            await until(lambda: lanes)
            yield Place(lanes[0].state, lanes[0].commit)


async def _behaves(place: Place) -> None:
    state = place.state
    assert state.get([]) == []
    assert state.get([b"a", b"b"]) == [None, None]
    assert list(state.scan(b"", b"\xff")) == []

    unit = Unit(state)
    for key in (b"q2", b"q1", b"p", b"q3", b"r", b"q", b"q1\0", b"q1\xff\xff"):
        unit.put(key, b"of " + key)
    assert unit.get([b"q1", b"z"]) == [b"of q1", None]
    assert state.get([b"q1"]) == [None], "only what is committed is seen"
    await place.commit(unit)

    assert state.get([b"q1", b"nothing", b"q1", b"p"]) == [b"of q1", None, b"of q1", b"of p"]
    keys = [key for key, _ in state.scan(b"q", b"r")]
    assert keys == [b"q", b"q1", b"q1\0", b"q1\xff\xff", b"q2", b"q3"]
    assert list(state.scan(b"q2", b"q3")) == [(b"q2", b"of q2")]
    assert list(state.scan(b"r", b"q")) == []
    assert list(state.scan(b"q2", b"q2")) == []

    unit = Unit(state)
    unit.delete(b"q1")
    unit.delete(b"never there")
    unit.put(b"q2", b"")
    unit.put(b"q4", b"x")
    unit.delete(b"q4")
    assert unit.get([b"q1", b"q2", b"q3"]) == [None, b"", b"of q3"]
    scan = state.scan(b"q", b"r")
    assert next(scan) == (b"q", b"of q")
    await place.commit(unit)
    assert [key for key, _ in scan] == [b"q1", b"q1\0", b"q1\xff\xff", b"q2", b"q3"], "a scan is of one moment"

    assert state.get([b"q1", b"q2", b"q4"]) == [None, b"", None]
    assert [key for key, _ in state.scan(b"q1", b"r")] == [b"q1\0", b"q1\xff\xff", b"q2", b"q3"]


async def test_state_in_memory_behaves_like_state(memory: Place) -> None:
    await _behaves(memory)


async def test_the_state_of_a_lane_behaves_like_state(lane_of_engine: Place) -> None:
    await _behaves(lane_of_engine)


async def test_a_head_that_is_remembered_pops_a_queue_in_order(lane_of_engine: Place) -> None:
    state, commit = lane_of_engine
    unit = Unit(state)
    for i in range(1_000):
        unit.put(b"q%06d" % i, b"%d" % i)
    await commit(unit)
    popped: list[bytes] = []
    head = b"q"
    while True:
        unit = Unit(state)
        for key, value in state.scan(head, b"r"):
            unit.delete(key)
            popped.append(value)
            head = key + b"\0"
            if len(unit.writes) == 100:
                break
        if unit.empty:
            break
        await commit(unit)

    assert popped == [b"%d" % i for i in range(1_000)]
    assert list(state.scan(b"", b"\xff")) == []


async def test_memory_starts_from_what_it_is_given() -> None:
    state = MemoryState({b"b": b"2", b"a": b"1"})

    assert list(state.scan(b"", b"z")) == [(b"a", b"1"), (b"b", b"2")]
    assert len(state) == 2
