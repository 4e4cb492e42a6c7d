"""Topics on the broker, made from the topic table."""

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka import TopicPartition
from aiokafka import errors as kafka
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from msgspec import Struct

from headrace_runtime.clock import SystemClock
from headrace_runtime.streams.kafka import offsets
from headrace_runtime.streams.kafka.client import MAX_MESSAGE, Cluster, closed
from headrace_runtime.streams.kafka.errors import translate
from headrace_schemas.errors import FatalError, LayoutMismatch, Unavailable
from headrace_schemas.topics import DAY, EDGES, TOPICS, Topic

TOMBSTONES_KEPT = 7 * DAY
"""Seconds a deletion stays in the changelog: a copy of the state older than that would not see it."""
_ANSWER_SECONDS = 30.0
_EXISTS = 36  # TOPIC_ALREADY_EXISTS


class TopicRow(Struct, frozen=True):
    """One line of `headrace topics show`."""

    topic: str
    partitions: int
    records: int
    """Offsets between begin and end: markers of transactions are among them."""
    lag: dict[str, int]
    """Per group."""


async def create_topics(bootstrap: Sequence[str], prefix: str, partitions: int, replication: int) -> list[str]:
    """Those that are missing; → their names, without prefix. Returns once all of them answer."""
    cluster = Cluster(bootstrap, prefix, partitions, SystemClock())
    admin = await cluster.admin()
    try:
        there = await existing(admin, cluster)
        _check(there, cluster)
        missing = [row for row in TOPICS.values() if row.name not in there]
        if missing:
            await _create(admin, cluster, missing, replication)
        await _answering(cluster)
        return [row.name for row in missing]
    finally:
        await closed(admin)


async def describe_topics(bootstrap: Sequence[str], prefix: str) -> list[TopicRow]:
    cluster = Cluster(bootstrap, prefix, 1, SystemClock())
    admin = await cluster.admin()
    consumer = None
    try:
        consumer = await cluster.lookup(committed=False)
        return await _rows(admin, consumer, cluster)
    finally:
        await closed(admin)
        if consumer is not None:
            await closed(consumer)


async def existing(admin: AIOKafkaAdminClient, cluster: Cluster) -> dict[str, int]:
    """Topics of ours on the broker and their partitions. Asks for all topics: asking by name may create them."""
    try:
        rows: list[dict[str, Any]] = await admin.describe_topics()
    except kafka.KafkaError as error:
        raise translate(error, "the list of topics") from error
    counts = {row["topic"]: len(row["partitions"]) for row in rows if not row["error_code"]}
    return {name: counts[cluster.named(name)] for name in TOPICS if cluster.named(name) in counts}


def check(there: dict[str, int], cluster: Cluster) -> None:
    """What a service needs before it starts."""
    missing = [name for name in TOPICS if name not in there]
    if missing:
        raise FatalError(f"topics are missing ({', '.join(missing)}): run: headrace topics create")
    _check(there, cluster)


def _check(there: dict[str, int], cluster: Cluster) -> None:
    for name, count in there.items():
        wanted = cluster.count(name)
        if count != wanted:
            raise LayoutMismatch(
                f"topic {name} has {count} partitions, this process was told {wanted}: set streams.partitions to"
                " what it was created with (a host's partition is fixed for life)"
            )


async def _create(admin: AIOKafkaAdminClient, cluster: Cluster, rows: list[Topic], replication: int) -> None:
    new = [
        NewTopic(cluster.named(row.name), cluster.count(row.name), replication, topic_configs=_configs(row))
        for row in rows
    ]
    try:
        answer = await admin.create_topics(new)
    except (kafka.KafkaError, TimeoutError) as error:
        raise translate(error, "creating topics") from error
    for name, code, *message in answer.topic_errors:  # errors do not raise by themselves
        if code and code != _EXISTS:
            raise translate(kafka.for_code(code)(message[0] if message else ""), f"creating topic {name}")


def _configs(row: Topic) -> dict[str, str]:
    """Work has no retention by time: the broker's would delete unread work during a long pause."""
    configs = {"max.message.bytes": str(MAX_MESSAGE)}
    if row.kind == "work":
        configs |= {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    elif row.kind == "audit":
        configs |= {"cleanup.policy": "delete", "retention.ms": str(int(row.keep * 1000))}
    else:
        # only closed segments are compacted: with the default of 1 GiB a table would be read from far behind
        configs |= {
            "cleanup.policy": "compact",
            "delete.retention.ms": str(int(TOMBSTONES_KEPT * 1000)),
            "segment.bytes": str((64 if row.kind == "changelog" else 16) << 20),
            "min.cleanable.dirty.ratio": "0.3",
        }
    return configs


async def _answering(cluster: Cluster) -> None:
    """Right after creation producers meet partitions without a leader, for seconds."""
    every = [at for name in TOPICS for at in cluster.all_of(name)]
    consumer = await cluster.lookup()
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            while True:
                try:
                    await consumer.end_offsets(every)
                    return
                except kafka.KafkaError:
                    await asyncio.sleep(0.2)
    except TimeoutError:
        raise Unavailable(f"the new topics do not answer within {_ANSWER_SECONDS:.0f} s") from None
    finally:
        await closed(consumer)


async def _rows(admin: AIOKafkaAdminClient, consumer: Any, cluster: Cluster) -> list[TopicRow]:
    there = await existing(admin, cluster)
    every = [TopicPartition(cluster.named(name), number) for name, count in there.items() for number in range(count)]
    groups = {group for _, group in EDGES}
    read = {group: await offsets.committed(admin, cluster.named(group), every) for group in groups}
    begins, ends = await offsets.begins(consumer, every), await offsets.ends(consumer, every)

    def lag(name: str, group: str) -> int:
        total = 0
        for at in _of(every, cluster, name):
            found = read[group].get(at)
            total += ends[at] - (found.offset if found else begins[at])
        return total

    return [
        TopicRow(
            name,
            count,
            sum(ends[at] - begins[at] for at in _of(every, cluster, name)),
            {group: lag(name, group) for group in TOPICS[name].readers},
        )
        for name, count in there.items()
    ]


def _of(every: list[TopicPartition], cluster: Cluster, name: str) -> list[TopicPartition]:
    return [at for at in every if at.topic == cluster.named(name)]
