"""Silent stalls of the client are known: records wait, polls return nothing, nothing is logged."""

from collections.abc import Mapping

from aiokafka import TopicPartition

from headrace_runtime.clock import Clock
from headrace_schemas.errors import FatalError

STALL = 120.0
"""Seconds without progress, with records there to read, after which the process ends: a restart reads on."""


class Watchdog:
    """Fed with where each readable partition stands; partitions that may not be read (paused, opening) are left out."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._stuck: dict[TopicPartition, tuple[int, float]] = {}

    def see(self, positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
        now = self._clock.monotonic()
        behind = {at: position for at, position in positions.items() if position < ends.get(at, 0)}
        self._stuck = {
            at: self._stuck[at] if at in self._stuck and self._stuck[at][0] == position else (position, now)
            for at, position in behind.items()
        }
        for at, (position, since) in self._stuck.items():
            if now - since >= STALL:
                raise FatalError(f"reading {at.topic}[{at.partition}] has stood at {position} for {now - since:.0f} s")

    def forget(self) -> None:
        """The broker does not answer: nothing is known of stalls."""
        self._stuck.clear()
