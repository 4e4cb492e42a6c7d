"""Lanes and edges as metrics, measured at the seam: every service and both engines are counted the same way."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Gauge

from headrace_runtime.clock import Deadline
from headrace_runtime.logs import get_logger
from headrace_runtime.streams.seams import Edge, Lane, Record, Send, Serve, StateView, Streams, Unit
from headrace_runtime.tally import Counts, Spreads
from headrace_schemas import codec
from headrace_schemas.errors import LaneLost
from headrace_schemas.messages import DeadLetter
from headrace_schemas.topics import TOPICS

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)  # seconds

log = get_logger("streams")


class LaneMeters:
    """The series of all lanes of one process. At most one per registry: `of` finds it again."""

    _known: ClassVar[WeakKeyDictionary[CollectorRegistry, "LaneMeters"]] = WeakKeyDictionary()

    def __init__(self, registry: CollectorRegistry) -> None:
        self.unit_seconds = Spreads(
            "headrace_unit_seconds", "Seconds a commit took", ["group"], registry=registry, buckets=_BUCKETS
        )
        self.records = Counts("headrace_records", "Records read and committed", ["group", "topic"], registry=registry)
        self.sends = Counts("headrace_sends", "Records sent in committed units", ["topic"], registry=registry)
        self.sent_bytes = Counts("headrace_sent_bytes", "Bytes of those records", ["topic"], registry=registry)
        self.lost = Counter(
            "headrace_lanes_lost", "Lanes opened anew as a commit was in doubt", ["group"], registry=registry
        )
        self.lanes = Gauge("headrace_lanes", "Lanes served now", ["group"], registry=registry)
        self.assigned = Counter("headrace_lanes_assigned", "Lanes taken over", ["group"], registry=registry)
        self.revoked = Counter("headrace_lanes_revoked", "Lanes given away or lost", ["group"], registry=registry)
        self.dead_letters = Counter(
            "headrace_dead_letters",
            "Records that could not be handled, by the group and the topic they were read from",
            ["group", "topic"],
            registry=registry,
        )
        self._heartbeat = Gauge(
            "headrace_heartbeat_timestamp_seconds",
            "When the slowest lane of the service last asked for records or committed (Unix time)",
            ["service"],
            registry=registry,
        )
        self._serving: defaultdict[str, set[MeteredLane]] = defaultdict(set)
        self.lag = Gauge("headrace_lag", "Records a group has yet to commit", ["topic", "group"], registry=registry)

    @classmethod
    def of(cls, registry: CollectorRegistry) -> "LaneMeters":
        found = cls._known.get(registry)
        if found is None:
            found = cls._known[registry] = cls(registry)
        return found

    def expect(
        self, group: str, topics: Iterable[str], started: Callable[[], bool], stalled: Callable[[], float] = float
    ) -> None:
        """Shows at 0 what `group` may count, and its heartbeat, which stands still until it has started and for as long
        (seconds) as it is `stalled`: what is not there can neither be drawn nor watched."""
        for by_group in (self.unit_seconds, self.lost, self.lanes, self.assigned, self.revoked):
            by_group.labels(group)
        for topic in topics:
            self.records.labels(group, topic)
            self.dead_letters.labels(group, topic)
        for row in TOPICS.values():
            if group in row.producers and row.kind != "changelog":
                self.sends.labels(row.name)
                self.sent_bytes.labels(row.name)
        began = time.time()
        self._heartbeat.labels(group).set_function(lambda: self._beat(group, stalled()) if started() else began)

    def _beat(self, group: str, stalled: float) -> float:
        """A process that stands by has no lanes, and lives. Lanes that wait for their broker ask all the same."""
        return min((time.time() - stalled, *(lane.beat for lane in self._serving[group])))

    @contextmanager
    def serving(self, lane: "MeteredLane") -> Iterator[None]:
        owned = self.lanes.labels(lane.group)
        owned.inc()
        self.assigned.labels(lane.group).inc()
        self._serving[lane.group].add(lane)
        try:
            yield
        except LaneLost:
            self.lost.labels(lane.group).inc()
            raise
        finally:
            self._serving[lane.group].discard(lane)
            self.revoked.labels(lane.group).inc()
            owned.dec()

    def committed(self, group: str, unit: Unit, seconds: float) -> None:
        self.unit_seconds.labels(group).observe(seconds)
        records, sends, sent_bytes = self.records.labels, self.sends.labels, self.sent_bytes.labels
        for record in unit.done:
            records(group, record.topic).inc()
        for sent in (unit.sends, unit.later):
            for send in sent:
                sends(send.topic).inc()
                sent_bytes(send.topic).inc(len(send.value))
                if send.topic == "dead.letters":
                    self.dead_letters.labels(group, _origin(send)).inc()


def metered(serve: Serve, registry: CollectorRegistry) -> Serve:
    """`serve`, each of its lanes measured."""
    meters = LaneMeters.of(registry)

    async def served(lane: Lane) -> None:
        measured = MeteredLane(lane, meters)
        with meters.serving(measured):
            await serve(measured)

    return served


def _origin(send: Send) -> str:
    letter: DeadLetter = codec.decode(send.topic, send.value)
    return letter.topic


class MeteredLane:
    """A `Lane` that counts its commits and changes nothing."""

    def __init__(self, lane: Lane, meters: LaneMeters) -> None:
        self._lane, self._meters = lane, meters
        self.beat = time.time()
        """When it was last seen to go on."""

    @property
    def group(self) -> str:
        return self._lane.group

    @property
    def partition(self) -> int:
        return self._lane.partition

    @property
    def state(self) -> StateView:
        return self._lane.state

    @property
    def linger(self) -> float:
        return self._lane.linger

    @property
    def stopping(self) -> Deadline | None:
        return self._lane.stopping

    async def poll(self, limit: int, timeout: float) -> list[Record]:
        records = await self._lane.poll(limit, timeout)
        self.beat = time.time()
        return records

    async def commit(self, unit: Unit) -> None:
        began = time.perf_counter()
        await self._lane.commit(unit)
        self.beat = time.time()
        self._meters.committed(self._lane.group, unit, time.perf_counter() - began)

    def owned(self) -> bool:
        return self._lane.owned()


async def watch_lag(
    streams: Streams, edges: Iterable[tuple[str, str]], registry: CollectorRegistry, interval: float = 5.0
) -> None:
    """Sets `headrace_lag` every `interval` seconds, for ever. A broker that does not answer is no reason to end."""
    lag = LaneMeters.of(registry).lag
    watched = tuple(edges)
    while True:
        try:
            found = await streams.edges(watched)
        except Exception as error:
            log.once("lag", "lag unknown", error=str(error) or repr(error))
        else:
            log.forget("lag")
            for (topic, group), records in _by_edge(watched, found).items():
                lag.labels(topic, group).set(records)
        await asyncio.sleep(interval)


def _by_edge(watched: Iterable[tuple[str, str]], found: Iterable[Edge]) -> dict[tuple[str, str], int]:
    total = dict.fromkeys(watched, 0)
    for edge in found:
        total[edge.topic, edge.group] += max(0, edge.end - edge.committed)
    return total
