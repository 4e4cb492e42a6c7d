"""Messages out: whole batches, every acknowledgement awaited, unacknowledged bytes bounded."""

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError, KafkaTimeoutError

from headrace_runtime.clock import Clock
from headrace_runtime.streams.kafka.client import MAX_MESSAGE
from headrace_schemas.errors import FatalError

_OVERHEAD = 200  # bytes a record and its batch add, generously
_UNACKED = 64 << 20


class Message(NamedTuple):
    at: TopicPartition
    key: bytes | None
    value: bytes | None
    """None: a deletion in a compacted topic."""


class Gate:
    """Bounds the bytes on their way: aiokafka packs a batch per partition into one request, with no cap."""

    def __init__(self, limit: int = _UNACKED) -> None:
        self._limit, self._used = limit, 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    async def enter(self, size: int) -> None:
        """First come, first served. One larger than the whole gate passes alone."""
        if not self._waiting and self._fits(size):
            self._used += size
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(size)
            raise

    def leave(self, size: int) -> None:
        self._used -= size
        while self._waiting:
            needed, turn = self._waiting[0]
            if not turn.done():
                if not self._fits(needed):
                    return
                self._used += needed
                turn.set_result(None)
            self._waiting.popleft()

    def _fits(self, size: int) -> bool:
        return self._used == 0 or self._used + size <= self._limit


class Delivery:
    """One per process: all its producers share the gate."""

    def __init__(self, clock: Clock, gate: Gate | None = None) -> None:
        self._clock, self._gate = clock, gate or Gate()

    async def deliver(self, producer: AIOKafkaProducer, messages: Iterable[Message]) -> dict[TopicPartition, int]:
        """Acknowledged when it returns, in order per partition. → the offset after the last one, per partition.

        Batches built here cost a sixth of `send` per message. Every future is awaited, failed or not: aiokafka's own
        commit does not notice a failed send, and a future nobody asks complains. Then the first error is raised.
        """
        sent: list[tuple[TopicPartition, int, Any]] = []
        error: BaseException | None = None
        try:
            for at, batch, size in self._batches(producer, messages):
                await self._gate.enter(size)
                sent.append((at, batch.record_count(), await self._send(producer, at, batch, size)))
        except KafkaError as failed:
            error = failed
        results = await asyncio.gather(*(future for _, _, future in sent), return_exceptions=True)
        ends: dict[TopicPartition, int] = {}
        for (at, count, _), result in zip(sent, results, strict=True):
            if isinstance(result, BaseException):
                error = error or result
            else:
                ends[at] = result.offset + count
        if error is not None:
            raise error
        return ends

    async def _send(self, producer: AIOKafkaProducer, at: TopicPartition, batch: Any, size: int) -> Any:
        future = None
        try:
            while future is None:
                try:
                    future = await producer.send_batch(batch, at.topic, partition=at.partition)
                except KafkaTimeoutError:  # still in line behind another batch, nothing of it was sent: an outage
                    continue
        except BaseException:
            self._gate.leave(size)
            raise
        future.add_done_callback(lambda _: self._gate.leave(size))
        return future

    def _batches(
        self, producer: AIOKafkaProducer, messages: Iterable[Message]
    ) -> Iterator[tuple[TopicPartition, Any, int]]:
        by_partition: dict[TopicPartition, list[Message]] = {}
        for message in messages:
            if len(message.value or b"") + len(message.key or b"") + _OVERHEAD > MAX_MESSAGE:
                raise FatalError(f"a message of {len(message.value or b'')} bytes for {message.at.topic}: too large")
            by_partition.setdefault(message.at, []).append(message)
        stamp = int(self._clock.now() * 1000)
        for at, waiting in by_partition.items():
            batch = producer.create_batch()
            for message in waiting:
                if batch.append(timestamp=stamp, key=message.key, value=message.value) is None:
                    yield at, batch, batch.size()
                    batch = producer.create_batch()
                    batch.append(timestamp=stamp, key=message.key, value=message.value)
            batch.close()
            yield at, batch, batch.size()
