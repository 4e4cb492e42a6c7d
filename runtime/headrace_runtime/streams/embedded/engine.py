"""The embedded engine: `Streams` in one RocksDB, for one process at a time."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import get_args

from headrace_runtime.clock import Clock
from headrace_runtime.streams.embedded.bookmark import Bookmarks
from headrace_runtime.streams.embedded.commit import Committer, unknown
from headrace_runtime.streams.embedded.database import Database, rows_with
from headrace_runtime.streams.embedded.flusher import Flusher, Sync
from headrace_runtime.streams.embedded.group import Group, Member
from headrace_runtime.streams.embedded.lane import EmbeddedLane
from headrace_runtime.streams.embedded.layout import BOOKMARKS
from headrace_runtime.streams.embedded.log import PartitionLog, open_logs, partitions_of
from headrace_runtime.streams.embedded.state import EmbeddedState
from headrace_runtime.streams.embedded.tables import EmbeddedTable, Tables
from headrace_runtime.streams.seams import Edge, Send, Serve
from headrace_schemas.errors import UsageError
from headrace_schemas.topics import TOPICS

TOGETHER = 1_000  # sends written in one batch by `publish`: seeds come by the million


class EmbeddedStreams:
    """All calls come from one event loop. Only the flush of the write-ahead log runs in a thread."""

    def __init__(
        self,
        database: Database,
        logs: dict[tuple[str, int], PartitionLog],
        bookmarks: Bookmarks,
        tables: Tables,
        committer: Committer,
        flusher: Flusher,
        partitions: int,
    ) -> None:
        self._database, self._logs, self._bookmarks = database, logs, bookmarks
        self._tables, self._committer, self._flusher = tables, committer, flusher
        self._partitions = partitions
        self._groups: dict[str, tuple[Group, tuple[str, ...]]] = {}
        self._members: list[Member] = []
        self._closed = False

    @classmethod
    async def open(cls, path: Path, *, partitions: int, sync: str, keep: float, clock: Clock) -> "EmbeddedStreams":
        """`sync`: none, group or always. `keep`: seconds a record stays after every group has read it."""
        if partitions < 1 or partitions > 0xFFFF:
            raise UsageError(f"{partitions} partitions; allowed: 1 to 65535")
        if sync not in get_args(Sync):
            raise UsageError(f"sync is {sync!r}; allowed: {', '.join(get_args(Sync))}")
        database = Database.open(path, partitions=partitions)
        try:
            return cls.over(database, partitions=partitions, sync=sync, keep=keep, clock=clock)  # type: ignore[arg-type]
        except BaseException:
            database.close()
            raise

    @classmethod
    def over(cls, database: Database, *, partitions: int, sync: Sync, keep: float, clock: Clock) -> "EmbeddedStreams":
        """On a database that is open already."""
        logs = open_logs(database, partitions, keep)
        bookmarks = Bookmarks()
        bookmarks.load(rows_with(database, BOOKMARKS), logs)
        tables = Tables(database)
        committer = Committer(database, logs, bookmarks, tables, clock)
        return cls(database, logs, bookmarks, tables, committer, Flusher(database, sync), partitions)

    @property
    def partitions(self) -> int:
        return self._partitions

    async def join(
        self, group: str, topics: Sequence[str], serve: Serve, *, stateful: bool = False, since: float | None = None
    ) -> Member:
        """A membership takes its share of the partitions from `run` on."""
        shared = self._group(group, tuple(topics))

        def open_lane(partition: int) -> EmbeddedLane:
            logs = [self._logs[topic, partition] for topic in topics if (topic, partition) in self._logs]
            bookmarks = [self._bookmarks.open(group, log, since) for log in logs]
            state = EmbeddedState(self._database, group, partition) if stateful else None
            return EmbeddedLane(group, partition, bookmarks, state, self._committer, self._flusher, self._database)

        member = Member(shared, serve, open_lane)
        self._members.append(member)
        return member

    async def publish(self, sends: Iterable[Send]) -> None:
        rest = iter(sends)
        while some := list(islice(rest, TOGETHER)):
            self._committer.append(some)
            self._flusher.wrote()
            await asyncio.sleep(0)
        await self._flusher.covered()

    async def edges(self, edges: Iterable[tuple[str, str]]) -> list[Edge]:
        found: list[Edge] = []
        for topic, group in edges:
            for partition in range(self._width([topic])):
                log = self._logs[topic, partition]
                committed = self._bookmarks.committed(group, log)
                found.append(Edge(topic, group, partition, committed, log.extent.end))
        return found

    async def begins(self, topic: str) -> list[int]:
        return [self._logs[topic, partition].extent.start for partition in range(self._width([topic]))]

    async def table(self, topic: str) -> EmbeddedTable:
        self._width([topic])
        if TOPICS[topic].kind != "table":
            raise UsageError(f"{topic} is no table; tables: {', '.join(_tables())}")
        return self._tables.open(topic)

    def peek(self, group: str, partition: int) -> EmbeddedState:
        """The committed state of a partition, beside whoever serves it."""
        return EmbeddedState(self._database, group, partition)

    async def close(self) -> None:
        """Drains nothing: memberships are stopped before, or what they had under way is read again."""
        if self._closed:
            return
        self._closed = True
        for member in self._members:
            await member.abandon()
        await self._flusher.close()
        try:
            if self._database.broken is None:
                self._committer.trim()
                if self._flusher.sync != "none":
                    self._database.sync()
        finally:
            self._database.close()

    def _group(self, name: str, topics: tuple[str, ...]) -> Group:
        for topic in topics:
            if topic in TOPICS and TOPICS[topic].kind not in ("work", "audit"):
                raise UsageError(f"{topic} is no topic that groups read")
        width = self._width(topics)
        group, joined = self._groups.setdefault(name, (Group(name, width), topics))
        if joined != topics:
            raise UsageError(f"group {name} reads {', '.join(joined)}; it cannot read {', '.join(topics)} as well")
        return group

    def _width(self, topics: Sequence[str]) -> int:
        """Partitions of the widest of `topics`, all of which must exist."""
        for topic in topics:
            if (topic, 0) not in self._logs:
                raise unknown(topic)
        return max((partitions_of(TOPICS[topic], self._partitions) for topic in topics), default=0)


def _tables() -> list[str]:
    return [topic.name for topic in TOPICS.values() if topic.kind == "table"]
