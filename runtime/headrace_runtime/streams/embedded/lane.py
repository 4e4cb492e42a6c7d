"""One owned partition of one group: what `serve` reads from and commits to."""

import asyncio
from collections.abc import Sequence

from headrace_runtime.clock import Deadline
from headrace_runtime.streams.embedded.bookmark import Bookmark
from headrace_runtime.streams.embedded.commit import Committer
from headrace_runtime.streams.embedded.database import Database
from headrace_runtime.streams.embedded.flusher import Flusher
from headrace_runtime.streams.embedded.state import EmbeddedState
from headrace_runtime.streams.seams import Record, StateView, Unit
from headrace_schemas.errors import LaneLost

WINDOW = 8_192  # offsets between the oldest not done and the newest delivered: bounds the bitmap of a bookmark
ROOM = 16 << 20  # bytes of values one poll may bring
LINGER = 0.02  # seconds; of what finished meanwhile one unit is made, which costs far less than many


class Cursor:
    """Where a lane stands in one topic; it only goes forward."""

    def __init__(self, bookmark: Bookmark, group: str) -> None:
        self.bookmark, self.log = bookmark, bookmark.log
        self._position = bookmark.mark.base
        self._done_before = bookmark.mark if bookmark.mark.beyond else None
        """What the last owner finished out of order: not delivered again."""
        self._may_skip = group not in self.log.topic.readers

    def read(self, limit: int, room: int) -> list[Record]:
        extent = self.log.extent
        if self._may_skip:  # deletion waits only for the groups of the topic table
            self.bookmark.mark = self.bookmark.mark.from_(extent.start)
        self._position = max(self._position, self.bookmark.mark.base)  # over what the last owner did out of order
        stop = min(extent.end, self.bookmark.mark.base + WINDOW)
        while self._position < stop:
            records = self.log.read(self._position, stop, limit, room)
            self._position = records[-1].offset + 1
            if self._done_before is not None:
                done = self._done_before
                records = [record for record in records if not done.has(record.offset)]
            if records:
                return records
        return []


class EmbeddedLane:
    def __init__(
        self,
        group: str,
        partition: int,
        bookmarks: Sequence[Bookmark],
        state: EmbeddedState | None,
        committer: Committer,
        flusher: Flusher,
        database: Database,
    ) -> None:
        self._group, self._partition, self._state = group, partition, state
        self._bookmarks = {bookmark.log.topic.name: bookmark for bookmark in bookmarks}
        self._cursors = [Cursor(bookmark, group) for bookmark in bookmarks]
        self._committer, self._flusher, self._database = committer, flusher, database
        self._stopping: Deadline | None = None
        self._closed = False
        self._turn = 0
        self._waiter: asyncio.Future[None] | None = None
        for cursor in self._cursors:
            cursor.log.subscribe(self)

    @property
    def group(self) -> str:
        return self._group

    @property
    def partition(self) -> int:
        return self._partition

    @property
    def state(self) -> StateView:
        if self._state is None:
            raise TypeError(f"{self._group} joined without state")
        return self._state

    @property
    def linger(self) -> float:
        return LINGER

    @property
    def stopping(self) -> Deadline | None:
        return self._stopping

    def owned(self) -> bool:
        """While the workspace is locked nobody else can own it, however long this process slept."""
        return not self._closed

    async def poll(self, limit: int, timeout: float) -> list[Record]:
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout
        while True:
            records = self._read(limit)
            if records:
                await asyncio.sleep(0)  # a full log must not keep the loop from everyone else
                return records
            left = until - loop.time()
            if left <= 0 or self._stopping is not None:
                await asyncio.sleep(0)
                return []
            await self._news(left)

    async def commit(self, unit: Unit) -> None:
        if self._closed:
            raise LaneLost(f"{self._group}[{self._partition}] was given up")
        self._committer.commit(unit, None if self._state is None else self._state.prefix, self._bookmarks)
        self._flusher.wrote()
        if self._flusher.sync == "always":
            await self._flusher.covered()

    # ---- called by the group and the log -----------------------------------------------------------

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def stop(self, deadline: Deadline) -> None:
        if self._stopping is None or deadline.left < self._stopping.left:
            self._stopping = deadline
        self.wake()

    def close(self) -> None:
        self._closed = True
        self._stopping = self._stopping or Deadline(0.0)
        for cursor in self._cursors:
            cursor.log.unsubscribe(self)
        self.wake()

    def _read(self, limit: int) -> list[Record]:
        """Each topic is the first in its turn, so that a flooded one does not starve the others."""
        found: list[Record] = []
        if self._stopping is not None or limit <= 0:
            return found
        if self._database.broken is not None:
            raise self._database.broken
        room, count = ROOM, len(self._cursors)
        for i in range(count):
            records = self._cursors[(self._turn + i) % count].read(limit - len(found), room)
            found += records
            room -= sum(len(record.value) for record in records)
            if len(found) >= limit or room <= 0:
                break
        self._turn += 1
        return found

    async def _news(self, timeout: float) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        alarm = loop.call_later(timeout, self.wake)
        try:
            await self._waiter
        finally:
            alarm.cancel()
            self._waiter = None
