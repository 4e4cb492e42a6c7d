"""Where a test's topics are, and short words for what only Kafka has."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient

from headrace_runtime.clock import Clock, SystemClock
from headrace_runtime.streams.kafka.client import Cluster, closed
from headrace_runtime.streams.kafka.engine import KafkaStreams


@dataclass(frozen=True)
class Place:
    brokers: list[str]
    prefix: str
    folder: Path
    partitions: int = 2
    session: float = 6.0

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def cluster(self, clock: Clock | None = None) -> Cluster:
        return Cluster(self.brokers, self.prefix, self.partitions, clock or SystemClock())

    def at(self, topic: str, partition: int = 0) -> TopicPartition:
        return TopicPartition(self.prefix + topic, partition)

    @asynccontextmanager
    async def opened(
        self, *, partitions: int = 0, instance: str = "", clock: Clock | None = None
    ) -> AsyncIterator[KafkaStreams]:
        streams = await KafkaStreams.open(
            bootstrap=self.brokers,
            prefix=self.prefix,
            partitions=partitions or self.partitions,
            state=self.state,
            instance=instance,
            session_timeout=self.session,
            clock=clock or SystemClock(),
        )
        try:
            yield streams
        finally:
            await streams.close()

    @asynccontextmanager
    async def admin(self) -> AsyncIterator[AIOKafkaAdminClient]:
        admin = await self.cluster().admin()
        try:
            yield admin
        finally:
            await closed(admin)

    @asynccontextmanager
    async def producer(self, transactional_id: str | None = None) -> AsyncIterator[AIOKafkaProducer]:
        producer = await self.cluster().producer(transactional_id)
        try:
            yield producer
        finally:
            await closed(producer)

    async def read_all(self, topic: str, partition: int = 0, *, committed: bool = True) -> list[Any]:
        """Every record of one partition, as the broker has it."""
        consumer = await self.cluster().consumer(committed=committed)
        try:
            at = self.at(topic, partition)
            consumer.assign([at])
            consumer.seek(at, (await consumer.beginning_offsets([at]))[at])
            end, found = (await consumer.end_offsets([at]))[at], []
            while await consumer.position(at) < end:
                for records in (await consumer.getmany(at, timeout_ms=200)).values():
                    found += records
            return found
        finally:
            await closed(consumer)
