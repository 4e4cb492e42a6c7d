"""One unit of work is one write batch: state, records, offsets, table rows and deletions become true together.

The steps are numbered and each is one method, so that a test can kill the process between any two of them.
"""

from collections.abc import Iterable, Mapping, Sequence

from rocksdict import WriteBatch

from headrace_runtime.clock import Clock
from headrace_runtime.streams.embedded.bookmark import Bookmark, Bookmarks, Mark
from headrace_runtime.streams.embedded.database import Database
from headrace_runtime.streams.embedded.layout import Extent, pack_extent, pack_record, table_prefix
from headrace_runtime.streams.embedded.log import PartitionLog
from headrace_runtime.streams.embedded.tables import Tables
from headrace_runtime.streams.seams import Record, Send, Unit
from headrace_schemas.errors import UsageError
from headrace_schemas.topics import TOPICS

TRIM = 512  # records deleted at once: a range costs 50 µs however long, and every one in memory slows reading a little
LOOK = 1.0  # seconds between two looks at the age of the oldest records


class Staged:
    """A unit on its way: the batch, and what is to change in memory once it is written. Dies with a failed write."""

    __slots__ = ("appended", "batch", "extents", "marks", "rows")

    def __init__(self, batch: WriteBatch) -> None:
        self.batch = batch
        self.extents: dict[PartitionLog, Extent] = {}
        self.appended: dict[PartitionLog, list[Record]] = {}
        """Of a table, which nobody reads by offset, an empty list."""
        self.marks: dict[Bookmark, Mark] = {}
        self.rows: list[tuple[str, bytes, bytes]] = []

    def extent(self, log: PartitionLog) -> Extent:
        return self.extents.get(log, log.extent)


class Committer:
    """Runs on the event loop without a pause from the first step to the last, so that units never interleave."""

    def __init__(
        self,
        database: Database,
        logs: Mapping[tuple[str, int], PartitionLog],
        bookmarks: Bookmarks,
        tables: Tables,
        clock: Clock,
    ) -> None:
        self._database, self._logs, self._bookmarks = database, logs, bookmarks
        self._tables, self._clock = tables, clock

    def commit(self, unit: Unit, state: bytes | None, bookmarks: Mapping[str, Bookmark]) -> None:
        """`state`: prefix of the lane's state, if it keeps any. `bookmarks`: the lane's, by topic."""
        staged = Staged(self._database.batch())
        self._stage_state(staged, unit.writes, state)  # 1
        self._stage_records(staged, unit.sends)  # 2
        self._stage_records(staged, unit.later)
        self._stage_offsets(staged, unit.done, bookmarks)  # 3
        self._stage_deletions(staged)  # 4
        self._write(staged)  # 5
        self._adopt(staged)  # 6
        self._announce(staged)  # 7

    def append(self, sends: Iterable[Send]) -> None:
        staged = Staged(self._database.batch())
        self._stage_records(staged, sends)
        self._stage_deletions(staged)
        self._write(staged)
        self._adopt(staged)
        self._announce(staged)

    def trim(self) -> None:
        """Deletes all that may go, however little: for the end of a run."""
        staged = Staged(self._database.batch())
        for log in self._logs.values():
            log.look_again = 0.0
            self._trim(staged, log, at_least=1)
        if staged.extents:
            self._stage_extents(staged)
            self._write(staged)
            self._adopt(staged)

    # ---- the steps ---------------------------------------------------------------------------------

    def _stage_state(self, staged: Staged, writes: dict[bytes, bytes | None], prefix: bytes | None) -> None:
        if not writes:
            return
        if prefix is None:
            raise TypeError("this lane keeps no state")
        self._database.write_state(staged.batch, prefix, writes)

    def _stage_records(self, staged: Staged, sends: Iterable[Send]) -> None:
        now = self._clock.now()
        batch, put = staged.batch, self._database.put_record
        for send in sends:
            topic, partition, value, key = send.topic, send.partition, send.value, send.key
            log = self._logs.get((topic, partition))
            if log is None:
                raise unknown(topic, partition)
            start, end, newest = staged.extent(log)
            timestamp = max(now, newest)
            if log.topic.kind == "table":
                batch.put(table_prefix(topic) + key, value)
                staged.rows.append((topic, key, value))
                start = end + 1
                staged.appended.setdefault(log, [])
            else:
                put(batch, log.key(end), pack_record(timestamp, key, value))
                record = Record(topic, partition, end, key, value, timestamp)
                staged.appended.setdefault(log, []).append(record)
            staged.extents[log] = Extent(start, end + 1, timestamp)

    def _stage_offsets(self, staged: Staged, done: Sequence[Record], bookmarks: Mapping[str, Bookmark]) -> None:
        offsets: dict[str, list[int]] = {}
        for record in done:
            offsets.setdefault(record.topic, []).append(record.offset)
        for topic, passed in offsets.items():
            bookmark = bookmarks[topic]
            mark = staged.marks[bookmark] = bookmark.mark.plus(passed)
            staged.batch.put(bookmark.key, mark.pack())

    def _stage_deletions(self, staged: Staged) -> None:
        """Of what was read: the first to let go is the group that read it last. Audit topics have only an age."""
        for bookmark in staged.marks:
            self._trim(staged, bookmark.log, at_least=TRIM)
        for log in staged.appended:
            if log.topic.kind == "audit":
                self._trim(staged, log, at_least=1)
        self._stage_extents(staged)

    def _write(self, staged: Staged) -> None:
        self._database.write(staged.batch)

    def _adopt(self, staged: Staged) -> None:
        """What is on disk is true now, so memory may say so."""
        for log, extent in staged.extents.items():
            log.extent = extent
            log.recent.add(staged.appended.get(log, ()))
            log.recent.drop_before(extent.start)
        for bookmark, mark in staged.marks.items():
            bookmark.mark = mark

    def _announce(self, staged: Staged) -> None:
        for log in staged.appended:
            log.wake()
        for topic, key, value in staged.rows:
            self._tables.changed(topic, key, value)

    # ---- deletion ----------------------------------------------------------------------------------

    def _stage_extents(self, staged: Staged) -> None:
        for log, extent in staged.extents.items():
            staged.batch.put(log.extent_key, pack_extent(extent))

    def _trim(self, staged: Staged, log: PartitionLog, at_least: int) -> None:
        start, end, newest = staged.extent(log)
        behind = self._read_by_all(staged, log)
        if behind - start < at_least:
            return
        if log.keep > 0:
            behind = self._old_enough(log, min(behind, log.extent.end))
            if behind - start < at_least:
                return
        self._database.delete_records(staged.batch, log.key(start), log.key(behind))
        staged.extents[log] = Extent(behind, end, newest)

    def _read_by_all(self, staged: Staged, log: PartitionLog) -> int:
        """The offset before which no group needs anything any more."""
        if log.topic.kind == "audit":
            return log.extent.end
        least = staged.extent(log).end
        for group in log.topic.readers:
            bookmark = self._bookmarks.find(group, log)
            if bookmark is None:
                return log.extent.start
            least = min(least, staged.marks.get(bookmark, bookmark.mark).base)
        return least

    def _old_enough(self, log: PartitionLog, behind: int) -> int:
        now = self._clock.now()
        if now < log.look_again:
            return log.extent.start
        log.look_again = now + LOOK
        return log.first_since(now - log.keep, behind)


def unknown(topic: str, partition: int | None = None) -> UsageError:
    row = TOPICS.get(topic)
    if row is None:
        return UsageError(f"there is no topic {topic!r}; known: {', '.join(TOPICS)}")
    if row.kind == "changelog":
        return UsageError(f"{topic} is written by the engine alone")
    return UsageError(f"{topic} has no partition {partition}")
