"""The stateful lane: state, outputs and offsets become true in one transaction.

Who may write is decided by the transactional id, which is bound to the input partition: aiokafka sends no group
generation with the offsets, so the group alone would let a zombie commit. The successor's producer fences it.
"""

import asyncio
from typing import NamedTuple

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

from headrace_runtime.streams.kafka import offsets
from headrace_runtime.streams.kafka.client import closed
from headrace_runtime.streams.kafka.delivery import Message
from headrace_runtime.streams.kafka.errors import hopeless, translate
from headrace_runtime.streams.kafka.lane import KafkaLane, LaneParts, Place
from headrace_runtime.streams.kafka.restore import Restorer
from headrace_runtime.streams.kafka.store import LocalState
from headrace_runtime.streams.seams import Record, StateView, Unit
from headrace_schemas.errors import FatalError, Fenced, LaneLost, Unavailable

_LINGER = (0.05, 1.0)
"""Seconds between two transactions, from idle to under load: each has a fixed cost on client and broker."""
_COMMIT_SECONDS = 60.0
_IDLE = 0.2
"""Seconds without a commit after which markers alone are worth a transaction."""


class Staged(NamedTuple):
    messages: list[Message]
    offsets: dict[TopicPartition, int]
    writes: dict[bytes, bytes | None]


class TransactionalLane(KafkaLane):
    def __init__(self, parts: LaneParts, place: Place, restorer: Restorer) -> None:
        super().__init__(parts, place)
        self._name = parts.cluster.named(f"{parts.group}-{place.partition}")
        self._changelog = parts.cluster.at(f"{parts.group}.changelog", place.partition)
        self._restorer = restorer
        self._turn = asyncio.Lock()
        self._producer: AIOKafkaProducer | None = None
        self._state: LocalState | None = None
        self._last_commit = parts.clock.monotonic()
        self._commit_took = 0.0

    @property
    def state(self) -> StateView:
        assert self._state is not None
        return self._state

    @property
    def linger(self) -> float:
        least, most = _LINGER
        return min(most, max(least, 4 * self._commit_took))

    async def open(self) -> None:
        """In this order: the producer fences the last owner and ends its open transaction; only then are the committed
        offsets stable (read before, 40 of 100 were stale) and the changelog's end is the end."""
        parts = self._parts
        self._producer = await parts.cluster.producer(self._name)
        done = await offsets.committed(parts.admin, parts.cluster.named(self.group), self._ats)
        await self._take_positions(done)
        self._state = await self._restorer.open(self._name, self._changelog)
        if not done and not self._state.empty:
            raise FatalError(
                f"{self.group}[{self.partition}] has state but no committed offset: the broker forgot the group"
                " (offsets.retention.minutes); going on would do all its work again"
            )
        self._begin()

    async def poll(self, limit: int, timeout: float) -> list[Record]:
        records = await super().poll(limit, timeout)
        if not records and self._live and self._quiet():
            await self._step_over()
        return records

    async def commit(self, unit: Unit) -> None:
        async with self._turn:
            self._require_alive()
            staged = await self._step1_stage(unit)
            if staged.messages or staged.offsets:
                await self._make_true(staged)

    async def close(self) -> None:
        self._die()
        state, self._state = self._state, None
        producer, self._producer = self._producer, None
        if state is not None:
            state.close()
        if producer is not None:
            await closed(producer)

    # ---- the commit, step by step; a kill between any two of them loses and repeats nothing -----------------------

    async def _make_true(self, staged: Staged) -> None:
        """Any error from begin to commit is ambiguous: the lane dies and is opened anew, nothing is retried."""
        started = self._parts.clock.monotonic()
        try:
            async with asyncio.timeout(_COMMIT_SECONDS):
                await self._step2_begin()
                end = await self._step3_send(staged)
                await self._step4_offsets(staged)
                await self._step5_commit()
        except BaseException as error:
            self._die()
            if isinstance(error, asyncio.CancelledError):
                raise
            raise self._lost(error) from error
        try:
            self._step6_apply(staged, end)
        except Unavailable as error:  # true all the same: the next open reads it from the changelog
            self._die()
            raise LaneLost(str(error)) from error
        self._last_commit = self._parts.clock.monotonic()
        self._commit_took = self._last_commit - started

    async def _step1_stage(self, unit: Unit) -> Staged:
        """Nothing is visible to anyone yet."""
        messages = [Message(self._changelog, key, value) for key, value in unit.writes.items()]
        messages += self._messages(unit.sends)
        messages += self._messages(unit.later)
        self._finish(unit.done)
        return Staged(messages, await self._moved(), unit.writes)

    async def _step2_begin(self) -> None:
        await self._open_producer.begin_transaction()

    async def _step3_send(self, staged: Staged) -> int | None:
        """→ where the changelog stands after this unit, if it wrote state."""
        ends = await self._parts.delivery.deliver(self._open_producer, staged.messages)
        return ends.get(self._changelog)

    async def _step4_offsets(self, staged: Staged) -> None:
        if staged.offsets:
            await self._open_producer.send_offsets_to_transaction(
                dict(staged.offsets), self._parts.cluster.named(self.group)
            )

    async def _step5_commit(self) -> None:
        await self._open_producer.commit_transaction()

    def _step6_apply(self, staged: Staged, end: int | None) -> None:
        """A kill before this is made good by the changelog at the next open."""
        for at, offset in staged.offsets.items():
            self._committed[at] = (offset, "")
        if staged.writes and self._state is not None and end is not None:
            self._state.apply(staged.writes.items(), end)

    # ---- parts of it --------------------------------------------------------------------------------------------

    async def _moved(self) -> dict[TopicPartition, int]:
        """Offsets that differ from the committed ones. The first commit names every input, also those not read yet:
        afterwards a partition without an offset means that the broker forgot it."""
        moved = {}
        for at in self._ats:
            known, offset = self._committed[at], await self._next_offset(at)
            if offset is not None and (known is None or known[0] != offset):
                moved[at] = offset
        return moved

    def _quiet(self) -> bool:
        return (
            not self._waiting and not self._turn.locked() and self._parts.clock.monotonic() - self._last_commit >= _IDLE
        )

    async def _step_over(self) -> None:
        """Markers of transactions are in our inputs too; without this, lag would stay 1 for ever. An input without
        any commit yet is left alone: there is nothing to step over."""
        async with self._turn:
            self._require_alive()
            moved = {at: offset for at, offset in (await self._moved()).items() if self._moved_on(at, offset)}
            if moved:
                await self._make_true(Staged([], moved, {}))

    def _moved_on(self, at: TopicPartition, offset: int) -> bool:
        known = self._committed[at]
        return offset > known[0] if known is not None else offset > 0

    @property
    def _open_producer(self) -> AIOKafkaProducer:
        if self._producer is None:
            raise LaneLost(f"{self.group}[{self.partition}] is closed")
        return self._producer

    def _lost(self, error: BaseException) -> BaseException:
        name = f"the commit of {self.group}[{self.partition}]"
        if isinstance(error, KafkaError | TimeoutError):
            known = translate(error, name)
            return known if isinstance(known, Fenced) or hopeless(error) else LaneLost(f"{known} (in doubt)")
        return error
