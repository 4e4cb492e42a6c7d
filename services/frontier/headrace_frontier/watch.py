"""Looks about once a second at how far every group has read: for back-pressure, and for leases that are lost."""

import asyncio
from collections.abc import Iterable

from headrace_frontier.circumstances import Circumstances, LaneWatch
from headrace_runtime.logs import get_logger
from headrace_runtime.streams.seams import Edge, Streams
from headrace_schemas.errors import HeadraceError

log = get_logger("frontier")
TASKS, RESULTS = ("urls.to_fetch", "fetcher"), ("fetch.results", "frontier")
PARSED, STORED = ("pages.fetched", "parser"), ("pages.fetched", "storer")
LOOKED_AT = (TASKS, RESULTS, PARSED, STORED)
_SELDOM = 300.0  # seconds between two lines of a broker that is away


class _Suspicion:
    """The fetcher had read all tasks up to `released`; all their answers are before `end` of the results."""

    def __init__(self, lane: LaneWatch, released: int) -> None:
        self.lane, self.released = lane, released
        self.end: int | None = None


class Watcher:
    """A lease is lost only if the fetcher has committed all of its partition's tasks, and then the frontier has
    read the results to the end they had AFTER that, and it is still in flight. So it takes two looks at least, and
    leases made after the first are not meant."""

    def __init__(self, circumstances: Circumstances, streams: Streams, every: float = 1.0) -> None:
        self._circumstances, self._streams, self._every = circumstances, streams, every
        self._suspicions: dict[int, _Suspicion] = {}

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(self._every)

    async def look(self) -> None:
        before = {partition: lane.released for partition, lane in self._circumstances.lanes.items()}
        try:
            edges = await self._streams.edges(LOOKED_AT)
        except HeadraceError as error:
            if not error.retriable:
                raise
            log.seldom("look", _SELDOM, "cannot see how far the others have read", why=str(error))
            return
        log.forget("look")
        self.seen(before, edges)

    def seen(self, before: dict[int, int], edges: Iterable[Edge]) -> None:
        """`before`: the last committed release of each lane before the look began."""
        lag = {PARSED: 0, STORED: 0}
        tasks: dict[int, Edge] = {}
        results: dict[int, Edge] = {}
        for edge in edges:
            which = (edge.topic, edge.group)
            if which in lag:
                lag[which] += max(0, edge.end - edge.committed)
            elif which == TASKS:
                tasks[edge.partition] = edge
            elif which == RESULTS:
                results[edge.partition] = edge
        self._circumstances.backlog = max(lag.values())
        self._suspicions = {p: s for p, s in self._suspicions.items() if p in before}
        for partition, released in before.items():
            lane = self._circumstances.lanes.get(partition)
            if lane is not None and partition in tasks and partition in results:
                self._suspect(partition, lane, released, tasks[partition], results[partition])

    def _suspect(self, partition: int, lane: LaneWatch, released: int, tasks: Edge, results: Edge) -> None:
        suspicion = self._suspicions.get(partition)
        if not lane.in_flight or lane.lost:
            self._suspicions.pop(partition, None)
        elif suspicion is None or suspicion.lane is not lane:
            self._suspicions.pop(partition, None)
            if tasks.committed >= tasks.end:
                self._suspicions[partition] = _Suspicion(lane, released)
        else:
            if suspicion.end is None:
                suspicion.end = results.end
            if results.committed >= suspicion.end:
                lane.lost = suspicion.released
                del self._suspicions[partition]
