"""Topics on the broker, made from the topic table."""

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka import errors as kafka
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from headrace_runtime.clock import SystemClock
from headrace_runtime.streams.kafka.client import MAX_MESSAGE, Cluster, answered, closed
from headrace_runtime.streams.kafka.errors import translate
from headrace_schemas.errors import LayoutMismatch, TopicsMissing, Unavailable
from headrace_schemas.topics import DAY, TOPICS, Topic

TOMBSTONES_KEPT = 7 * DAY
"""Seconds a deletion stays in the changelog: a copy of the state older than that would not see it."""
_ANSWER_SECONDS = 30.0
_EXISTS = 36  # TOPIC_ALREADY_EXISTS


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


async def delete_topics(bootstrap: Sequence[str], prefix: str) -> list[str]:
    """All of ours; → those that were there. The broker forgets with them what groups had read. Nobody may be reading:
    a service that does ends with an error."""
    cluster = Cluster(bootstrap, prefix, 1, SystemClock())
    admin = await cluster.admin()
    try:
        there = list(await existing(admin, cluster))
        if there:
            await admin.delete_topics([cluster.named(name) for name in there])
        async with asyncio.timeout(_ANSWER_SECONDS):
            while await existing(admin, cluster):
                await asyncio.sleep(0.1)
        return there
    except (kafka.KafkaError, TimeoutError) as error:
        raise translate(error, "deleting topics") from error
    finally:
        await closed(admin)


async def existing(admin: AIOKafkaAdminClient, cluster: Cluster) -> dict[str, int]:
    """Topics of ours on the broker and their partitions. Asks for all topics: asking by name may create them."""
    try:
        rows: list[dict[str, Any]] = await answered(admin.describe_topics)
    except kafka.KafkaError as error:
        raise translate(error, "the list of topics") from error
    counts = {row["topic"]: len(row["partitions"]) for row in rows if not row["error_code"]}
    return {name: counts[cluster.named(name)] for name in TOPICS if cluster.named(name) in counts}


def check(there: dict[str, int], cluster: Cluster) -> None:
    """What a service needs before it starts."""
    missing = [name for name in TOPICS if name not in there]
    if missing:
        raise TopicsMissing(f"topics are missing ({', '.join(missing)}): run: headrace topics create")
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
        NewTopic(cluster.named(row.name), cluster.count(row.name), replication, topic_configs=configs(row, replication))
        for row in rows
    ]
    try:
        answer = await admin.create_topics(new)
    except (kafka.KafkaError, TimeoutError) as error:
        raise translate(error, "creating topics") from error
    for name, code, *message in answer.topic_errors:  # errors do not raise by themselves
        if code and code != _EXISTS:
            raise translate(kafka.for_code(code)(message[0] if message else ""), f"creating topic {name}")


def configs(row: Topic, replication: int) -> dict[str, str]:
    """Work has no retention by time: the broker's would delete unread work during a long pause."""
    configs = {"max.message.bytes": str(MAX_MESSAGE)}
    if replication >= 3:
        # `acks=all` is of the copies in sync: by default that may be one, and what it acknowledged would die with it
        configs["min.insync.replicas"] = "2"
    if row.kind == "work":
        # only closed segments are deleted: with the default of 1 GiB the janitor would free nothing for long
        configs |= {
            "cleanup.policy": "delete",
            "retention.ms": "-1",
            "retention.bytes": "-1",
            "segment.bytes": str(64 << 20),
            "segment.ms": str(int(DAY * 1000)),
        }
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
