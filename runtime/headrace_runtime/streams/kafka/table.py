"""A compacted topic as a table: latest value per key, read without a group."""

import asyncio
from collections.abc import Callable, Mapping, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import ConsumerStoppedError, KafkaError

from headrace_runtime.logs import get_logger
from headrace_runtime.streams.kafka import offsets
from headrace_runtime.streams.kafka.client import closed
from headrace_runtime.streams.kafka.errors import translate

log = get_logger("streams")

_POLL_MS = 500
_LOOK = 0.01  # seconds
_SELDOM = 60.0  # seconds between two lines of the same trouble


class KafkaTable:
    """Reads uncommitted: a row of an open transaction is work that a completion scan must see."""

    def __init__(self, consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]) -> None:
        self._consumer, self._partitions = consumer, partitions
        self._rows: dict[bytes, bytes] = {}
        self._watchers: list[Callable[[bytes, bytes], None]] = []
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def open(cls, consumer: AIOKafkaConsumer, partitions: Sequence[TopicPartition]) -> "KafkaTable":
        try:
            consumer.assign(list(partitions))
            for at, begin in (await offsets.begins(consumer, partitions)).items():
                consumer.seek(at, begin)
            table = cls(consumer, partitions)
        except BaseException:
            await closed(consumer)
            raise
        try:
            await table.refresh()
        except BaseException:
            await table.close()
            raise
        return table

    @property
    def rows(self) -> Mapping[bytes, bytes]:
        return self._rows

    def watch(self, changed: Callable[[bytes, bytes], None]) -> None:
        self._watchers.append(changed)
        for key, value in list(self._rows.items()):
            changed(key, value)

    async def refresh(self) -> None:
        """The end is asked for now; the position passes markers, which no record tells of."""
        ends = await offsets.ends(self._consumer, self._partitions)
        for at, end in ends.items():
            while await self._consumer.position(at) < end:
                if self._task.done():
                    self._task.result()
                await asyncio.sleep(_LOOK)

    async def close(self) -> None:
        await closed(self._consumer)
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _read(self) -> None:
        while True:
            try:
                got = await self._consumer.getmany(timeout_ms=_POLL_MS, max_records=5_000)
            except ConsumerStoppedError:
                return
            except KafkaError as error:
                known = translate(error, f"reading {self._partitions[0].topic}")
                if not known.retriable:
                    raise known from error
                log.seldom(self._partitions[0].topic, _SELDOM, "cannot read a table", why=str(known))
                await asyncio.sleep(0.5)
                continue
            for records in got.values():
                for record in records:
                    self._take(record.key or b"", record.value)

    def _take(self, key: bytes, value: bytes | None) -> None:
        if value is None:
            self._rows.pop(key, None)
            return
        self._rows[key] = value
        for watcher in self._watchers:
            watcher(key, value)
