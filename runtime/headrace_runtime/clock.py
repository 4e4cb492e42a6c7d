"""Time comes from here, so that schedules are tested in virtual time."""

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch: what messages and due times carry."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back: what gaps and durations are measured with."""
        ...


class SystemClock:
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)


class ManualClock:
    """A clock that a test turns by hand."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += seconds


class Deadline:
    """One point in time that a whole shutdown or revoke shares."""

    def __init__(self, seconds: float, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._at = self._clock.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left, never below 0."""
        return max(0.0, self._at - self._clock.monotonic())

    @property
    def passed(self) -> bool:
        return self.left <= 0.0
