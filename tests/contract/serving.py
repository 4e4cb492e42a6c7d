"""Short words for what nearly every test does with a group: serve, read, wait."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from headrace_runtime.clock import Deadline
from headrace_runtime.streams.seams import Lane, Membership, Record, Serve, Streams, Unit

PATIENCE = 60.0  # seconds; only a failure waits that long


async def until(condition: Callable[[], Any], what: str = "") -> None:
    """Returns when `condition()` holds."""
    deadline = Deadline(PATIENCE)
    while not condition():
        if deadline.passed:
            raise AssertionError(f"waited {PATIENCE:.0f} s in vain for: {what or condition}")
        await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(
    streams: Streams,
    group: str,
    topics: Sequence[str],
    serve: Serve,
    *,
    stateful: bool = False,
    since: float | None = None,
    drain: float = 10.0,
) -> AsyncIterator[Membership]:
    """A membership that runs inside the block and is stopped, drained, at its end; what it raised is raised."""
    membership = await streams.join(group, topics, serve, stateful=stateful, since=since)
    running = asyncio.create_task(membership.run())
    try:
        yield membership
    finally:
        await membership.stop(Deadline(drain))
        await asyncio.wait_for(running, PATIENCE)


class Reader:
    """Reads all there is and keeps it; marks as done what `done` picks."""

    def __init__(self, done: Callable[[Record], bool] = lambda record: True, limit: int = 100) -> None:
        self.records: list[Record] = []
        self.lanes: list[Lane] = []
        self._done, self._limit = done, limit

    async def serve(self, lane: Lane) -> None:
        self.lanes.append(lane)
        while lane.stopping is None:
            records = await lane.poll(self._limit, 0.1)
            self.records += records
            unit = Unit()
            unit.done.extend(filter(self._done, records))
            if not unit.empty:
                await lane.commit(unit)

    def values(self, partition: int | None = None) -> list[bytes]:
        return [record.value for record in self.records if partition in (None, record.partition)]


async def read(
    streams: Streams, group: str, topics: Sequence[str], count: int, *, since: float | None = None
) -> list[Record]:
    """The next `count` records of `group`, and that there are no more of them."""
    reader = Reader()
    async with serving(streams, group, topics, reader.serve, since=since):
        await until(lambda: len(reader.records) >= count, f"{count} records for {group}")
        await until_read(streams, [(topic, group) for topic in topics])
    assert len(reader.records) == count
    return reader.records


async def until_read(streams: Streams, edges: Sequence[tuple[str, str]]) -> None:
    """Returns when every edge was read to its end."""
    deadline = Deadline(PATIENCE)
    while lag := [edge for edge in await streams.edges(edges) if edge.committed != edge.end]:
        if deadline.passed:
            raise AssertionError(f"never read to the end: {lag}")
        await asyncio.sleep(0.01)
