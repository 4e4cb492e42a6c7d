"""What both kinds of lane share: bounded queues between the group's one consumer and `serve`."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import IllegalStateError
from prometheus_client import Counter

from headrace_runtime.clock import Clock, Deadline
from headrace_runtime.streams.kafka import offsets
from headrace_runtime.streams.kafka.client import Cluster
from headrace_runtime.streams.kafka.delivery import Delivery, Message
from headrace_runtime.streams.kafka.intake import Intake
from headrace_runtime.streams.kafka.pulse import Pulse
from headrace_runtime.streams.kafka.window import Window, done_beyond
from headrace_runtime.streams.seams import Record, Send
from headrace_schemas.errors import LaneLost

_GROUP_BYTES = 64 << 20
"""Bytes all lanes of a group may have waiting."""
_LEAST_BYTES = 256 << 10


@dataclass(frozen=True)
class LaneParts:
    """What a group hands to each of its lanes."""

    cluster: Cluster
    consumer: AIOKafkaConsumer
    admin: AIOKafkaAdminClient
    lookup: AIOKafkaConsumer
    """Reads committed, has no group."""
    delivery: Delivery
    pulse: Pulse
    clock: Clock
    rebalances: Counter
    group: str
    topics: Sequence[str]
    since: float | None


@dataclass(frozen=True)
class Place:
    """One partition as it was assigned."""

    partition: int
    inputs: Sequence[TopicPartition]
    lanes: int
    """Of the group in this process: they share its memory."""


class KafkaLane:
    """Fed by the group's pump, read by `serve`: both on the event loop."""

    def __init__(self, parts: LaneParts, place: Place) -> None:
        self._parts, self._place = parts, place
        self._ats = place.inputs
        self._intakes: dict[TopicPartition, Intake] = {}
        self._committed: dict[TopicPartition, tuple[int, str] | None] = {}
        """What the broker knows, metadata included; None: never committed."""
        self._held: set[TopicPartition] = set(self._ats)
        """Paused: all of them while the lane opens."""
        self._news = asyncio.Event()
        self._stopping: Deadline | None = None
        self._opened = self._dead = False

    @property
    def group(self) -> str:
        return self._parts.group

    @property
    def partition(self) -> int:
        return self._place.partition

    @property
    def stopping(self) -> Deadline | None:
        return self._stopping

    def owned(self) -> bool:
        return not self._dead and self._parts.pulse.fresh

    def stop(self, deadline: Deadline) -> None:
        """No more intake. The first deadline holds."""
        if self._stopping is None:
            self._stopping = deadline
            self._hold(set(self._ats))
        self._news.set()

    async def poll(self, limit: int, timeout: float) -> list[Record]:
        if timeout > 0 and self._live and not self._waiting:
            self._news.clear()
            try:
                async with asyncio.timeout(timeout):
                    await self._news.wait()
            except TimeoutError:
                pass
        if not self._live:
            return []
        taken: list[Record] = []
        while limit > len(taken) and (waiting := self._waiting):
            share = max(1, (limit - len(taken)) // len(waiting))
            for intake in waiting:
                taken += intake.take(min(share, limit - len(taken)))
        self._throttle()
        return taken

    def feed(self, at: TopicPartition, records: Sequence[Any]) -> None:
        """Called in the same step of the event loop in which the consumer's position passed `records`."""
        self._intakes[at].feed(records)
        self._throttle()
        self._news.set()

    def readable(self) -> list[TopicPartition]:
        """Partitions that are not paused: what a stall is looked for in."""
        return [at for at in self._ats if at not in self._held] if self._live else []

    async def _take_positions(self, done: Mapping[TopicPartition, Any]) -> None:
        """Each input to where the group left it: committed, or the beginning, or `since`; never the end by accident."""
        parts = self._parts
        fresh = [at for at in self._ats if at not in done]
        begins = await offsets.begins(parts.lookup, fresh) if fresh else {}
        most_bytes = max(_LEAST_BYTES, _GROUP_BYTES // (self._place.lanes * len(self._ats)))
        for at in self._ats:
            found = done.get(at)
            if found is not None:
                start, window = found.offset, Window(done_beyond(found.offset, found.metadata))
                self._committed[at] = (found.offset, found.metadata or "")
            else:
                start, window = begins[at], Window()
                if parts.since is not None:
                    start = await offsets.since(parts.lookup, at, parts.since)
                self._committed[at] = None
            self._intakes[at] = Intake(parts.cluster.bare(at.topic), at.partition, window, most_bytes)
            parts.consumer.seek(at, start)

    def _begin(self) -> None:
        self._opened, self._held = True, set()
        self._parts.consumer.resume(*self._ats)

    async def _next_offset(self, at: TopicPartition) -> int | None:
        """What may be committed of `at`: the oldest record not done, or, with none, the position: it passes markers
        and aborted records, which 'last record + 1' does not, and lag would stay 1 for ever.

        `position()` of a partition that has one does not give up the event loop, so nothing is fed between.
        """
        window = self._intakes[at].window
        oldest = window.next
        if oldest is not None:
            return oldest
        try:
            position: int = await self._parts.consumer.position(at)
        except IllegalStateError:  # taken away meanwhile
            return None
        oldest = window.next
        return position if oldest is None else oldest

    def _messages(self, sends: Sequence[Send]) -> list[Message]:
        at = self._parts.cluster.at
        return [Message(at(send.topic, send.partition), send.key or None, send.value) for send in sends]

    def _finish(self, done: Sequence[Record]) -> None:
        at = self._parts.cluster.at
        for record in done:
            self._intakes[at(record.topic, record.partition)].window.finish(record.offset)
        self._throttle()

    @property
    def _live(self) -> bool:
        return self._stopping is None and not self._dead

    @property
    def _waiting(self) -> list[Intake]:
        return [intake for intake in self._intakes.values() if intake]

    def _throttle(self) -> None:
        if self._live:
            self._hold({at for at, intake in self._intakes.items() if intake.full})

    def _hold(self, wanted: set[TopicPartition]) -> None:
        if wanted == self._held:
            return
        consumer = self._parts.consumer
        assigned = consumer.assignment()
        if more := (wanted - self._held) & assigned:
            consumer.pause(*more)
        if less := (self._held - wanted) & assigned:
            consumer.resume(*less)
        self._held = wanted

    def _die(self) -> None:
        self._hold(set(self._ats))
        self._dead = True
        self._news.set()

    def _require_alive(self) -> None:
        if self._dead:
            raise LaneLost(f"{self.group}[{self.partition}] is no longer open")
