"""One input partition of a lane: what came and waits, what is under way, what is done."""

from collections import deque
from collections.abc import Sequence
from typing import Any

from headrace_runtime.streams.kafka.window import Window
from headrace_runtime.streams.seams import Record

_RECORDS = 2_000


class Intake:
    """A topic of its own queue, so that a flood in one does not hide the other."""

    def __init__(self, topic: str, partition: int, window: Window, most_bytes: int) -> None:
        self.window = window
        self._topic, self._partition, self._most_bytes = topic, partition, most_bytes
        self._queue: deque[Record] = deque()
        self._bytes = 0
        self._crowded = False

    def __len__(self) -> int:
        return len(self._queue)

    def feed(self, records: Sequence[Any]) -> None:
        receive, append = self.window.receive, self._queue.append
        topic, partition, size = self._topic, self._partition, 0
        for record in records:
            if receive(record.offset):
                value = record.value or b""
                size += len(value)
                append(Record(topic, partition, record.offset, record.key or b"", value, record.timestamp / 1000))
        self._bytes += size

    def take(self, limit: int) -> list[Record]:
        queue = self._queue
        taken = [queue.popleft() for _ in range(min(limit, len(queue)))]
        self._bytes -= sum(len(record.value) for record in taken)
        return taken

    @property
    def full(self) -> bool:
        """Time to pause: by records, by bytes (until half of either is left), or by the span of the window."""
        share = 2 if self._crowded else 1
        self._crowded = len(self._queue) * share >= _RECORDS or self._bytes * share >= self._most_bytes
        return self._crowded or self.window.full
