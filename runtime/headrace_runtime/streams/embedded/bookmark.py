"""How far a group has read one partition of one topic: a prefix that is done, and what is done beyond it."""

from typing import NamedTuple

from headrace_runtime.streams.embedded.layout import OFFSET, bookmark_key, bookmark_owner
from headrace_runtime.streams.embedded.log import PartitionLog
from headrace_schemas.errors import OffsetLost


class Mark(NamedTuple):
    """Bit i of `beyond` is offset `base + i`; bit 0 is never set, or `base` would be further on. One big integer: an
    offset costs a shift, and the row is its bytes."""

    base: int
    beyond: int = 0

    def has(self, offset: int) -> bool:
        return offset < self.base or bool(self.beyond >> (offset - self.base) & 1)

    def plus(self, offsets: list[int]) -> "Mark":
        base, beyond = self
        for offset in offsets:
            if offset >= base:
                beyond |= 1 << (offset - base)
        ones = (~beyond & (beyond + 1)).bit_length() - 1
        return Mark(base + ones, beyond >> ones)

    def from_(self, start: int) -> "Mark":
        """Everything before `start` counts as done."""
        if start <= self.base:
            return self
        return Mark(start, self.beyond >> (start - self.base)).plus([])

    def pack(self) -> bytes:
        return OFFSET.pack(self.base) + self.beyond.to_bytes((self.beyond.bit_length() + 7) // 8, "little")

    @classmethod
    def unpack(cls, raw: bytes) -> "Mark":
        return cls(int(OFFSET.unpack_from(raw)[0]), int.from_bytes(raw[OFFSET.size :], "little"))


class Bookmark:
    """The committed `mark`. Moved by the commit that made it true, read by the lane, the scan of edges and deletion."""

    __slots__ = ("key", "log", "mark")

    def __init__(self, group: str, log: PartitionLog, mark: Mark) -> None:
        self.log, self.mark = log, mark
        self.key = bookmark_key(group, log.topic.name, log.partition)


class Bookmarks:
    """All bookmarks of all groups: few, and held in memory."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, PartitionLog], Bookmark] = {}

    def load(self, rows: list[tuple[bytes, bytes]], logs: dict[tuple[str, int], PartitionLog]) -> None:
        for key, raw in rows:
            group, topic, partition = bookmark_owner(key)
            log = logs.get((topic, partition))
            if log is not None:  # a topic that an older release had
                self._known[group, log] = Bookmark(group, log, Mark.unpack(raw))

    def open(self, group: str, log: PartitionLog, since: float | None) -> Bookmark:
        """The bookmark a lane goes on from; a group's first one is where `since` says, or at the oldest record."""
        found = self._known.get((group, log))
        if found is None:
            base = log.extent.start if since is None else log.first_since(since)
            found = self._known[group, log] = Bookmark(group, log, Mark(base))
        elif found.mark.base < log.extent.start:
            if group in log.topic.readers:
                raise OffsetLost(
                    f"{log.name}: {group} has read to {found.mark.base}, but the oldest record kept is"
                    f" {log.extent.start}"
                )
            found.mark = found.mark.from_(log.extent.start)
        return found

    def committed(self, group: str, log: PartitionLog) -> int:
        """A group that never committed counts from the oldest record."""
        found = self._known.get((group, log))
        return log.extent.start if found is None else max(found.mark.base, log.extent.start)

    def find(self, group: str, log: PartitionLog) -> Bookmark | None:
        return self._known.get((group, log))
