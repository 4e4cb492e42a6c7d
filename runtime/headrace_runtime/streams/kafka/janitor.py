"""Deletes from one topic what every group that reads it has committed, and is old enough.

Never past the lowest commit of all groups; a partition that one of them has never committed is left alone. The age is
the record's own timestamp. Markers of transactions count as offsets like any other.
"""

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka import errors as kafka
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from headrace_runtime.streams.kafka import offsets
from headrace_runtime.streams.kafka.client import Cluster, answered
from headrace_runtime.streams.kafka.errors import translate
from headrace_schemas.topics import TOPICS


async def trim(cluster: Cluster, admin: AIOKafkaAdminClient, lookup: AIOKafkaConsumer, topic: str, keep: float) -> int:
    """→ offsets deleted."""
    read = await _read_by_all(cluster, admin, topic)
    if not read:
        return 0
    begins = await offsets.begins(lookup, read)
    read = {at: offset for at, offset in read.items() if offset > begins[at]}
    if read and keep > 0:
        young = await offsets.first_since(lookup, read, cluster.clock.now() - keep)
        read = {at: min(offset, young.get(at, offset)) for at, offset in read.items()}
    last = {at: offset for at, offset in read.items() if offset > begins[at]}
    if not last:
        return 0
    wanted = {at: RecordsToDelete(offset) for at, offset in last.items()}
    try:
        await answered(lambda: admin.delete_records(wanted))
    except kafka.KafkaError as error:
        raise translate(error, f"deleting what was read of {topic}") from error
    return sum(offset - begins[at] for at, offset in last.items())


async def _read_by_all(cluster: Cluster, admin: AIOKafkaAdminClient, topic: str) -> dict[TopicPartition, int]:
    """How far all groups have read; partitions that one of them has never committed are missing."""
    ats = cluster.all_of(topic)
    lowest: dict[TopicPartition, int] = {}
    for number, group in enumerate(TOPICS[topic].readers):
        found = await offsets.committed(admin, cluster.named(group), ats)
        lowest = {
            at: min(row.offset, lowest.get(at, row.offset)) for at, row in found.items() if not number or at in lowest
        }
    return lowest
