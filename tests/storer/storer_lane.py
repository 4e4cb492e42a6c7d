"""A lane in memory: a list of records in, what was committed out. For faults a real engine cannot be made to show."""

import asyncio
from collections import deque
from collections.abc import Iterable

from headrace_runtime.clock import Deadline
from headrace_runtime.streams.seams import Record, Send, StateView, Unit


class ListLane:
    group, partition, linger = "storer", 0, 0.0

    def __init__(self, records: Iterable[Record]) -> None:
        self.records = deque(records)
        self.done: list[Record] = []
        self.sends: list[Send] = []
        self.stopping: Deadline | None = None
        self._wanted = len(self.records)

    @property
    def state(self) -> StateView:
        raise TypeError("the storer keeps no state")

    async def poll(self, limit: int, timeout: float) -> list[Record]:
        if not self.records:
            await asyncio.sleep(0.005)
        return [self.records.popleft() for _ in range(min(limit, len(self.records)))]

    async def commit(self, unit: Unit) -> None:
        self.sends.extend(unit.sends)
        self.done.extend(unit.done)
        if len(self.done) == self._wanted and self.stopping is None:
            self.stop(5.0)

    def stop(self, seconds: float) -> None:
        self.stopping = Deadline(seconds)

    def owned(self) -> bool:
        return True
