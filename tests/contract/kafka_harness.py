"""Kafka under the contract suite: every test has topics, groups and ids of its own, by a prefix."""

import itertools
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from headrace_runtime.streams.kafka.topics import create_topics
from headrace_runtime.streams.open import brokers_of
from headrace_runtime.streams.seams import Streams
from tests.contract.engines import PARTITIONS, open_from_spec

_LANE = "headrace_runtime.streams.kafka.transactional:TransactionalLane."


class KafkaEngine:
    name = "kafka"
    exact = False
    instances: Sequence[str] = ("a", "b")
    session = 6.0
    kills = 10
    steps: Sequence[str] = tuple(
        _LANE + step
        for step in ("_step1_stage", "_step2_begin", "_step3_send", "_step4_offsets", "_step5_commit", "_step6_apply")
    )

    def __init__(self, folder: Path, brokers: str, prefix: str) -> None:
        self._folder, self._brokers, self._prefix = folder, brokers, prefix
        self._members = itertools.count()

    def spec(self, instance: str = "a") -> str:
        """A static member: one that was killed is back at once, without waiting for its own session to end."""
        return self._spec(instance, instance)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Streams]:
        """A dynamic member: it leaves the group when it is closed."""
        streams = await open_from_spec(self._spec("", f"member-{next(self._members)}"))
        try:
            yield streams
        finally:
            await streams.close()

    @asynccontextmanager
    async def beside(self, streams: Streams) -> AsyncIterator[Streams]:
        async with self.opened() as other:
            yield other

    def _spec(self, instance: str, folder: str) -> str:
        return (
            f"kafka:{self._brokers}?prefix={self._prefix}&partitions={PARTITIONS}&session={self.session:g}"
            f"&state={self._folder / folder}" + (f"&instance={instance}" if instance else "")
        )


@asynccontextmanager
async def kafka_engine(folder: Path, url: str) -> AsyncIterator[KafkaEngine]:
    brokers, prefix = brokers_of(url), f"t{uuid.uuid4().hex[:10]}."
    await create_topics(brokers, prefix, PARTITIONS, 1)
    yield KafkaEngine(folder, ",".join(brokers), prefix)
