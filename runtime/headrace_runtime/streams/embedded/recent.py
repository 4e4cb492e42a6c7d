"""Records kept in memory for those who read them right after they were written: nearly all readers, nearly always.

What is read from here was committed before, and is the same to the byte as in the database; who reads further back
than memory goes finds it there.
"""

from collections.abc import Sequence

from headrace_runtime.streams.seams import Record

ROOM = 48 << 20  # bytes of values, shared out among all partitions of all topics
CLEAR = 256  # records let go before those behind them are moved to the front


class Recent:
    """The newest records of one partition, without a gap up to its end."""

    def __init__(self, room: int) -> None:
        """`room`: bytes of values at the most."""
        self._room, self._used = room, 0
        self._records: list[Record] = []
        self._gone = 0
        """Of `_records`, from the front: let go already."""

    def add(self, records: Sequence[Record]) -> None:
        """They follow those that are here; to be called when they are committed."""
        self._records += records
        self._used += sum(len(record.value) for record in records)
        self._let_go(0)

    def read(self, start: int, stop: int, limit: int, room: int) -> list[Record]:
        """As the log reads; empty if memory does not reach back to `start`."""
        records = self._records
        if self._gone >= len(records) or start < records[self._gone].offset:
            return []
        first = start - records[0].offset
        last = min(len(records), first + limit, first + stop - start)
        for at in range(first, last):
            room -= len(records[at].value)
            if room <= 0:
                return records[first : at + 1]
        return records[first:last]

    def drop_before(self, offset: int) -> None:
        """Nobody will read them any more."""
        self._let_go(offset)

    def _let_go(self, before: int) -> None:
        """Those before that offset, and as many more as it takes to keep within bounds."""
        records, gone = self._records, self._gone
        while gone < len(records) and (records[gone].offset < before or self._used > self._room):
            self._used -= len(records[gone].value)
            gone += 1
        if gone >= min(CLEAR, len(records)):
            del records[:gone]
            gone = 0
        self._gone = gone
