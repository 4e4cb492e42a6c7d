"""What the politeness clock knows of one host: what waits, what is under way, and when the server last saw us."""

from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

LATENESS = 0.2
"""Share of the delay that a request may, at the most, be taken to have reached its server late."""
UNSEEN, UNSEEN_SHARE = 0.002, 0.005
"""Seconds, and share of the delay, that even the quickest request so far may have lain unseen: up to half a millisecond
was found in a server's log, with both ends on one machine."""
FORGETTING = 0.9
"""What is left of the slowest way to a host after each request that was quicker."""
NEVER = float("-inf")


class Sighting(NamedTuple):
    """What is known of when a server saw a request: some time between these two."""

    written: float
    answered: float


class Job(Generic[T]):
    """One request that is owed. `item` is the caller's."""

    __slots__ = ("accepted", "aside", "connections", "delay", "host", "item", "lane", "started")

    def __init__(self, lane: object, host: str, delay: float, item: T, connections: int = 1) -> None:
        """`connections`: requests to the host that may be under way together with this one, itself included."""
        self.lane, self.host, self.delay, self.item, self.connections = lane, host, delay, item, connections
        self.accepted = self.started = 0.0
        self.aside = False


class HostClock(Generic[T]):
    """Changed by the schedule only. Thousands are remembered at a time, so an idle one is small."""

    __slots__ = (
        *("begun", "delay", "faults", "floor", "last", "name", "pledged"),
        *("queue", "quickest", "rests", "slowest", "under_way", "wake"),
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue: list[Job[T]] = []
        """A list although it is taken from the front: an empty deque costs ten times as much, and a lane's window keeps
        this short enough for the move to go unnoticed."""
        self.under_way = 0
        self.last = NEVER
        """When the server saw the last request that has ended, as far as can be told."""
        self.delay = 0.0
        """That of the same request."""
        self.begun = NEVER
        """When the latest of those under way was started."""
        self.pledged = 0.0
        """The delay of that one."""
        self.quickest = 0.0
        """Shortest time from a request to its answer; 0: none seen."""
        self.slowest = 0.0
        """Longest time from a start to the request being on the wire (name, connection, TLS), lately."""
        self.floor = NEVER
        """No start before this: one delay after the lane's opening, or the end of a rest that the host asked for."""
        self.wake = 0.0
        """Time of the heap entry for its next turn; others of this host are leftovers."""
        self.faults = 0
        """Attempts in a row that failed, as far as that is the host's fault."""
        self.rests = NEVER
        """Time of the heap entry to forget it by: one at the most, or a busy host would leave thousands there."""

    def has_room(self) -> bool:
        """Whether the first that waits may go while what is under way goes on."""
        return self.under_way < self.queue[0].connections

    def ready(self, delay: float) -> float:
        """When a request with that delay may start. Of two neighbours the longer delay holds: what a site's robots.txt
        asks for is not undone by a request that does not know of it (robots.txt itself, another port)."""
        at = max(self.floor, self.last + max(delay, self.delay))
        if self.under_way:
            # It is not known yet when those will be seen; that they take as long to get there as the slowest did lately
            # keeps the next one, on a connection that is open already, from coming up behind them.
            owed = max(delay, self.pledged)
            at = max(at, self.begun + min(self.slowest, LATENESS * owed) + owed)
        return at

    def begin(self, now: float) -> Job[T]:
        job = self.queue.pop(0)
        job.started = self.begun = now
        self.pledged = job.delay
        self.under_way += 1
        return job

    def end(self, job: Job[T], sighting: Sighting | None) -> None:
        self.under_way -= 1
        if sighting is not None:
            self._seen(sighting, job)

    def _seen(self, sighting: Sighting, job: Job[T]) -> None:
        """A request can lie unseen for a while (a new connection, a server out of breath) and the next one not: then
        the server would see a gap shorter than the delay. What an answer took beyond the quickest one may have been
        such a while, so the delay counts from after it, within reason."""
        took = sighting.answered - sighting.written
        late = min(took - self.quickest, LATENESS * job.delay)
        seen = sighting.written + max(0.0, late)
        if took > 0.0:
            seen += min(UNSEEN, UNSEEN_SHARE * job.delay)
        if seen >= self.last:
            self.last, self.delay = seen, job.delay
        if took > 0.0:
            self.quickest = min(self.quickest or took, took)
        self.slowest = max(sighting.written - job.started, FORGETTING * self.slowest)
