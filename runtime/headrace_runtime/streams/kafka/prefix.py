"""The stateless lane: outputs acknowledged, then done; offsets committed as a prefix, a moment later.

Killed anywhere, the outputs of records that were not yet committed are sent again: at least once, idempotent at the
edges. The bitmap in the commit's metadata keeps that to what finished since the last commit.
"""

from aiokafka import TopicPartition
from aiokafka.errors import IllegalStateError, KafkaError

from headrace_runtime.streams.kafka import offsets
from headrace_runtime.streams.kafka.lane import KafkaLane, LaneParts, Place
from headrace_runtime.streams.kafka.outlet import Outlet
from headrace_runtime.streams.seams import StateView, Unit
from headrace_schemas.errors import LaneLost

_LINGER = 0.02  # seconds


class PrefixLane(KafkaLane):
    def __init__(self, parts: LaneParts, place: Place, outlet: Outlet) -> None:
        super().__init__(parts, place)
        self._outlet = outlet

    @property
    def linger(self) -> float:
        return _LINGER

    @property
    def state(self) -> StateView:
        raise TypeError(f"group {self.group} joined without state")

    async def open(self) -> None:
        parts = self._parts
        await self._take_positions(await offsets.committed(parts.admin, parts.cluster.named(self.group), self._ats))
        self._begin()

    async def commit(self, unit: Unit) -> None:
        self._require_alive()
        if unit.writes:
            raise TypeError(f"group {self.group} joined without state")
        first, later = self._messages(unit.sends), self._messages(unit.later)
        await self._outlet.send(first)
        await self._outlet.send(later)  # the page is acknowledged before its result is sent
        self._finish(unit.done)

    async def unsettled(self) -> dict[TopicPartition, tuple[int, str]]:
        """Offsets, with their bitmaps, that the broker does not know yet."""
        found = {}
        for at in self._ats if self._opened else ():
            start = await self._next_offset(at)
            if start is not None:
                entry = (start, self._intakes[at].window.bitmap(start))
                if entry != self._committed[at]:
                    found[at] = entry
        return found

    def settled(self, entries: dict[TopicPartition, tuple[int, str]]) -> None:
        for at in self._ats:
            if at in entries:
                self._committed[at] = entries[at]

    async def close(self) -> None:
        """Commits what is done; what cannot be committed any more is done again by the next owner."""
        if not self._dead:
            self._die()
            try:
                entries = await self.unsettled()
                if entries:
                    await self._parts.consumer.commit(entries)
                    self.settled(entries)
            except (KafkaError, IllegalStateError) as error:
                raise LaneLost(f"the last offsets of {self.group}[{self.partition}]: {error}") from error
