"""What a handler needs to know of the world outside its lane. Filled by the watcher, read by handlers; both on the
event loop, so nothing here waits or locks."""

from typing import Protocol

from headrace_schemas.messages import Control


class HasControl(Protocol):
    """What `ControlWatch` shows."""

    @property
    def now(self) -> Control: ...


class LaneWatch:
    """One lane's side of the rule for lost leases."""

    def __init__(self, released: int, in_flight: int) -> None:
        self.released = released
        """Number of the last release that is committed: written by the handler."""
        self.in_flight = in_flight
        """Written by the handler."""
        self.lost = 0
        """Leases up to this number that are still in flight are lost: written by the watcher, cleared by the handler
        once they are released again."""


class Circumstances:
    def __init__(self, control: HasControl) -> None:
        self._control = control
        self.backlog = 0
        """Pages fetched and not yet parsed, or not yet stored: the larger of the two."""
        self.lanes: dict[int, LaneWatch] = {}
        """By partition; those this process owns."""

    @property
    def control(self) -> Control:
        return self._control.now
