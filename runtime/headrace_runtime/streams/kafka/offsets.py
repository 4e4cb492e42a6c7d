"""Committed offsets with their metadata, and the ends of partitions."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka import errors as kafka
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.structs import OffsetAndMetadata

from headrace_runtime.streams.kafka.client import answered
from headrace_runtime.streams.kafka.errors import translate

_TRIES = 100


async def committed(
    admin: AIOKafkaAdminClient, group: str, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, OffsetAndMetadata]:
    """What `group` has committed; a partition never committed is missing.

    Not the clients' own calls: both overlook the error of the whole answer, so that a coordinator which is still
    loading would look like a group that never committed. `committed()` hides the metadata besides.
    """
    wanted: dict[str, list[int]] = defaultdict(list)
    for topic, partition in partitions:
        wanted[topic].append(partition)
    try:
        return await answered(lambda: _ask(admin, group, wanted), _TRIES)
    except kafka.KafkaError as error:
        raise translate(error, f"the offsets of group {group}") from error


async def _ask(
    admin: AIOKafkaAdminClient, group: str, wanted: dict[str, list[int]]
) -> dict[TopicPartition, OffsetAndMetadata]:
    coordinator = await admin.find_coordinator(group)
    answer = await admin._send_request(OffsetFetchRequest(group, list(wanted.items())), coordinator)
    _raise_for(getattr(answer, "error_code", 0))
    found = {}
    for topic, rows in answer.topics:
        for partition, offset, metadata, code in rows:
            _raise_for(code)
            if offset >= 0:
                found[TopicPartition(topic, partition)] = OffsetAndMetadata(offset, metadata)
    return found


def _raise_for(code: int) -> None:
    if code:
        raise kafka.for_code(code)()


async def ends(consumer: AIOKafkaConsumer, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """As far as `consumer` may read: the last stable offset, or with what is not yet committed, by its isolation."""
    try:
        found: dict[TopicPartition, int] = await consumer.end_offsets(list(partitions))
    except kafka.KafkaError as error:
        raise translate(error, "the ends of the topics") from error
    return found


async def begins(consumer: AIOKafkaConsumer, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    try:
        found: dict[TopicPartition, int] = await consumer.beginning_offsets(list(partitions))
    except kafka.KafkaError as error:
        raise translate(error, "the beginnings of the topics") from error
    return found


async def first_since(
    consumer: AIOKafkaConsumer, partitions: Iterable[TopicPartition], time: float
) -> dict[TopicPartition, int]:
    """The first offset appended at `time` (seconds) or later; a partition without such a record is missing."""
    try:
        found = await consumer.offsets_for_times(dict.fromkeys(partitions, int(time * 1000)))
    except kafka.KafkaError as error:
        raise translate(error, "the offsets of a time") from error
    return {at: row.offset for at, row in found.items() if row is not None}


async def since(consumer: AIOKafkaConsumer, at: TopicPartition, time: float) -> int:
    """The first offset appended at `time` (seconds) or later; the end if there is none."""
    found = await first_since(consumer, [at], time)
    return found[at] if found else (await ends(consumer, [at]))[at]
