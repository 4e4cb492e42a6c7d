"""Brings the local copy of a partition's state to the last stable offset of its changelog."""

import logging
from pathlib import Path

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from headrace_runtime.clock import Clock
from headrace_runtime.streams.kafka import offsets
from headrace_runtime.streams.kafka.client import Cluster, closed
from headrace_runtime.streams.kafka.errors import translate
from headrace_runtime.streams.kafka.meters import KafkaMeters
from headrace_runtime.streams.kafka.store import LocalState, StateOptions
from headrace_schemas.errors import Unavailable

log = logging.getLogger(__name__)

_CHUNK = 5_000
_QUIET_SECONDS = 60.0


class Restorer:
    """Opens the state of partitions of one process. `lookup` reads committed, and belongs to the engine."""

    def __init__(
        self,
        cluster: Cluster,
        lookup: AIOKafkaConsumer,
        folder: Path,
        cluster_id: str,
        clock: Clock,
        meters: KafkaMeters,
    ) -> None:
        self._cluster, self._lookup, self.folder, self._cluster_id = cluster, lookup, folder, cluster_id
        self._clock, self._meters = clock, meters
        self._options = StateOptions()

    async def open(self, name: str, changelog: TopicPartition) -> LocalState:
        """Only once the producer of this partition is started: then nothing of its last owner is still open."""
        began = self._clock.monotonic()
        lineage = f"{self._cluster_id}/{changelog.topic}/{changelog.partition}"
        state = await LocalState.open(self.folder / name, lineage, self._options, self._clock)
        try:
            await self._catch_up(state, changelog)
        except BaseException:
            state.close()
            raise
        self._meters.restore_seconds.observe(self._clock.monotonic() - began)
        return state

    async def _catch_up(self, state: LocalState, changelog: TopicPartition) -> None:
        begin = (await offsets.begins(self._lookup, [changelog]))[changelog]
        end = (await offsets.ends(self._lookup, [changelog]))[changelog]
        if state.offset and not begin <= state.offset <= end:
            log.warning("%s[%d] does not go on where the local copy ends: rebuilt", *changelog)
            state.clear()
        start = max(begin, state.offset)
        if start < end:
            await self._replay(state, changelog, start, end)
        else:
            state.apply((), start)

    async def _replay(self, state: LocalState, changelog: TopicPartition, start: int, end: int) -> None:
        """Stops at the position, never on a count: markers and compaction leave gaps."""
        consumer = await self._cluster.consumer(max_partition_fetch_bytes=4 << 20, fetch_max_wait_ms=100)
        try:
            consumer.assign([changelog])
            consumer.seek(changelog, start)
            position, heard, count = start, self._clock.monotonic(), 0
            while position < end:
                got = await consumer.getmany(changelog, timeout_ms=200, max_records=_CHUNK)
                records = got.get(changelog, [])
                count += len(records)
                self._meters.restored.inc(len(records))
                before, position = position, await consumer.position(changelog)
                if position > before:
                    heard = self._clock.monotonic()
                    state.apply(((record.key, record.value) for record in records), position)
                elif self._clock.monotonic() - heard > _QUIET_SECONDS:
                    raise Unavailable(f"{changelog.topic}[{changelog.partition}] gives nothing to restore from")
            log.info("restored %d entries of %s[%d]", count, *changelog)
        except KafkaError as error:
            raise translate(error, f"restoring {changelog.topic}[{changelog.partition}]") from error
        finally:
            await closed(consumer)
