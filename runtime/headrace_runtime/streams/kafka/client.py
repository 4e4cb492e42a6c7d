"""Clients of one cluster: started within a bound, closed within a bound, never left half open."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaConnectionError, KafkaError

from headrace_runtime.clock import Clock
from headrace_runtime.streams.kafka import chatter
from headrace_schemas.errors import FatalError, Unavailable
from headrace_schemas.topics import TOPICS

T = TypeVar("T")

MAX_MESSAGE = 16 << 20
"""Bytes of the largest message: `max.message.bytes` of our topics."""
MAX_BATCH = 1 << 20
_OPEN_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
_LOOKUP_SECONDS = 2.0
_TRIES = 20
_PAUSE = 0.1  # seconds
_CLOSED = "the handler is closed"  # uvloop's words
_TRANSACTION_MS = 10_000
"""How long a dead transactional producer may hold up its readers; a successor with the same id frees them at once."""


class Cluster:
    """Where the brokers are, and our names there."""

    def __init__(self, bootstrap: Sequence[str], prefix: str, partitions: int, clock: Clock) -> None:
        self.bootstrap, self.prefix, self.partitions, self.clock = list(bootstrap), prefix, partitions, clock
        self._ats = {
            (row.name, number): TopicPartition(prefix + row.name, number)
            for row in TOPICS.values()
            for number in range(self.count(row.name))
        }

    def named(self, name: str) -> str:
        """A topic, group or id of ours as the broker knows it."""
        return self.prefix + name

    def bare(self, name: str) -> str:
        return name[len(self.prefix) :]

    def count(self, topic: str) -> int:
        """Partitions of a topic of the table."""
        return 1 if TOPICS[topic].partitions == "one" else self.partitions

    def at(self, topic: str, partition: int) -> TopicPartition:
        """One that must be there: aiokafka waits 40 s for a topic that is not, and asserts the partition."""
        try:
            return self._ats[topic, partition]
        except KeyError:
            raise FatalError(f"there is no {topic}[{partition}]") from None

    def all_of(self, topic: str) -> list[TopicPartition]:
        return [self.at(topic, partition) for partition in range(self.count(topic))]

    async def producer(self, transactional_id: str | None = None) -> AIOKafkaProducer:
        """Idempotent, acknowledged by all replicas: aiokafka's default is neither. No compression: bodies are zstd."""
        options: dict[str, Any] = {}
        if transactional_id is not None:
            # 20 ms: the next transaction often meets CONCURRENT_TRANSACTIONS of the last one
            options = {
                "transactional_id": transactional_id,
                "transaction_timeout_ms": _TRANSACTION_MS,
                "retry_backoff_ms": 20,
            }
        producer = AIOKafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks="all",
            enable_idempotence=True,
            max_batch_size=MAX_BATCH,
            max_request_size=MAX_MESSAGE,
            **options,
        )
        return await self._started(producer)

    async def consumer(self, *, committed: bool = True, **options: Any) -> AIOKafkaConsumer:
        """Reads what is committed unless told otherwise; never commits by itself, never moves to the end by itself."""
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed" if committed else "read_uncommitted",
            **options,
        )
        return await self._started(consumer)

    async def lookup(self, *, committed: bool = True) -> AIOKafkaConsumer:
        """Reads nothing, answers where partitions begin and end. Learns of topics one by one, a backoff for each."""
        return await self.consumer(committed=committed, request_timeout_ms=10_000, retry_backoff_ms=20)

    async def admin(self) -> AIOKafkaAdminClient:
        return await self._started(AIOKafkaAdminClient(bootstrap_servers=self.bootstrap, request_timeout_ms=10_000))

    async def _started(self, client: Any) -> Any:
        chatter.subdue()
        try:
            with _unlogged():
                async with asyncio.timeout(_OPEN_SECONDS):
                    await client.start()
        except (KafkaError, OSError, TimeoutError) as error:
            await closed(client)
            why = "it does not answer in time" if isinstance(error, TimeoutError) else str(error)
            if unknown := await _unknown(self.bootstrap):
                why = f"no such host name: {', '.join(unknown)}"
            raise Unavailable(f"no Kafka broker at {','.join(self.bootstrap)}: {why}") from None
        except BaseException:
            await closed(client)
            raise
        return client


async def _unknown(brokers: Sequence[str]) -> list[str]:
    """Host names that nobody can resolve: the client's own error does not tell them from a closed port."""
    found = []
    for host in {broker.rpartition(":")[0].strip("[]") for broker in brokers}:
        try:
            async with asyncio.timeout(_LOOKUP_SECONDS):
                await asyncio.get_running_loop().getaddrinfo(host, None)
        except (OSError, TimeoutError, UnicodeError):
            found.append(host)
    return sorted(found)


async def answered(ask: Callable[[], Awaitable[T]], tries: int = _TRIES) -> T:
    """The admin client asks a broker chosen at random, also one that is away: the next try may ask another."""
    for left in reversed(range(tries)):
        try:
            return await _connected(ask)
        except KafkaError as error:
            if not left or not error.retriable:
                raise
        await asyncio.sleep(_PAUSE)
    raise AssertionError


async def _connected(ask: Callable[[], Awaitable[T]]) -> T:
    """A connection that the broker has just closed: aiokafka counts on asyncio's own silence, uvloop raises."""
    try:
        return await ask()
    except RuntimeError as error:
        if _CLOSED not in str(error):
            raise
        raise KafkaConnectionError(str(error)) from error


@contextmanager
def _unlogged() -> Iterator[None]:
    """aiokafka logs a line for every address that does not answer; the error that follows says it once."""
    logger = logging.getLogger("aiokafka")
    logger.addFilter(_nothing)
    try:
        yield
    finally:
        logger.removeFilter(_nothing)


def _nothing(record: logging.LogRecord) -> bool:
    return False


async def closed(client: Any) -> None:
    """aiokafka waits without end to flush to a broker that is gone, and warns of what is left open."""
    stop = client.close if isinstance(client, AIOKafkaAdminClient) else client.stop
    try:
        async with asyncio.timeout(_CLOSE_SECONDS):
            await stop()
    except (TimeoutError, KafkaError, OSError):
        await _cut(client)
    except RuntimeError as error:
        if _CLOSED not in str(error):
            raise
        await _cut(client)
    except asyncio.CancelledError:  # of a task of its own, which it cancels and waits for: no one else is to end
        if (task := asyncio.current_task()) is not None and task.cancelling():
            raise
        await _cut(client)
    finally:
        if isinstance(client, AIOKafkaProducer):
            _hush(client)


async def _cut(client: Any) -> None:
    """Its connections, whatever it is about."""
    inner = client.client if isinstance(client, AIOKafkaProducer) else client._client
    await inner.close()


def _hush(producer: AIOKafkaProducer) -> None:
    """A fenced producer leaves futures of its own with an error that nobody asks for, and asyncio logs each."""
    accumulator, transactions = producer._message_accumulator, producer._txn_manager
    batches = [*accumulator._pending_batches, *(batch for row in accumulator._batches.values() for batch in row)]
    for future in (transactions._transaction_waiter, *(batch._drain_waiter for batch in batches)):
        if future is not None and future.done() and not future.cancelled():
            future.exception()
