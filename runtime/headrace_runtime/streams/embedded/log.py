"""One partition of one topic: records one after the other, deleted from the front."""

from typing import Any, Protocol

from headrace_runtime.streams.embedded.database import Database, rows_with
from headrace_runtime.streams.embedded.layout import (
    OFFSET,
    Extent,
    extent_key,
    log_prefix,
    timestamp_of,
    unpack_extent,
    unpack_record,
)
from headrace_runtime.streams.embedded.recent import ROOM, Recent
from headrace_runtime.streams.seams import Record
from headrace_schemas.errors import OffsetLost
from headrace_schemas.topics import TOPICS, Topic


class Waker(Protocol):
    def wake(self) -> None: ...


class PartitionLog:
    """`extent` is what is committed; it is replaced by the commit that changed it, never in part."""

    def __init__(
        self, database: Database, topic: Topic, partition: int, extent: Extent, keep: float, recent: Recent
    ) -> None:
        self.topic, self.partition, self.extent, self.recent = topic, partition, extent, recent
        self.keep = keep
        """Seconds a record stays after it was read by all (audit: after it was written)."""
        self.look_again = 0.0
        """Seconds since the epoch before which nothing more is old enough to go."""
        self.prefix = log_prefix(topic.name, partition)
        self.extent_key = extent_key(topic.name, partition)
        self._database = database
        self._waiting: set[Waker] = set()

    @property
    def name(self) -> str:
        return f"{self.topic.name}[{self.partition}]"

    def key(self, offset: int) -> bytes:
        return self.prefix + OFFSET.pack(offset)

    def read(self, start: int, stop: int, limit: int, room: int) -> list[Record]:
        """Records from `start`, before `stop`, until there are `limit` of them or their values passed `room` bytes."""
        if kept := self.recent.read(start, stop, limit, room):
            return kept
        found: list[Record] = []
        topic, partition, prefix, pack = self.topic.name, self.partition, self.prefix, OFFSET.pack
        offset = start
        items: Any = self._database.log.items(from_key=prefix + pack(start))
        for key, raw in items:
            if key != prefix + pack(offset):
                break
            timestamp, record_key, value = unpack_record(raw)
            found.append(Record(topic, partition, offset, record_key, value, timestamp))
            offset += 1
            room -= len(value)
            if offset >= stop or len(found) >= limit or room <= 0:
                return found
        raise OffsetLost(f"{self.name}: record {offset} is gone, though the log goes on to {self.extent.end}")

    def first_since(self, time: float, stop: int | None = None) -> int:
        """The first offset whose record is not older than `time`; `stop` (default: the end) if all before it are."""
        low, high = self.extent.start, self.extent.end if stop is None else stop
        while low < high:
            middle = (low + high) // 2
            if self._timestamp(middle) < time:
                low = middle + 1
            else:
                high = middle
        return low

    def _timestamp(self, offset: int) -> float:
        raw: Any = self._database.log.get(self.key(offset))
        if raw is None:
            raise OffsetLost(f"{self.name}: record {offset} is gone, though the log goes on to {self.extent.end}")
        return timestamp_of(raw)

    def subscribe(self, waker: Waker) -> None:
        self._waiting.add(waker)

    def unsubscribe(self, waker: Waker) -> None:
        self._waiting.discard(waker)

    def wake(self) -> None:
        for waker in self._waiting:
            waker.wake()


def open_logs(database: Database, partitions: int, keep: float) -> dict[tuple[str, int], PartitionLog]:
    """Every partition of every topic; changelogs are not needed: state is in the same database."""
    extents = dict(rows_with(database, b"E"))
    logs: dict[tuple[str, int], PartitionLog] = {}
    work = sum(partitions_of(topic, partitions) for topic in TOPICS.values() if topic.kind == "work")
    for topic in TOPICS.values():
        if topic.kind == "changelog":
            continue
        stays = topic.keep if topic.kind == "audit" else min(topic.keep, keep)
        for partition in range(partitions_of(topic, partitions)):
            extent = unpack_extent(extents.get(extent_key(topic.name, partition)))
            recent = Recent(ROOM // work if topic.kind == "work" else 0)
            logs[topic.name, partition] = PartitionLog(database, topic, partition, extent, stays, recent)
    return logs


def partitions_of(topic: Topic, partitions: int) -> int:
    return 1 if topic.partitions == "one" else partitions
