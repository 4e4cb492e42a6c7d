"""The politeness clock: whose turn it is, for all hosts of the process. Pure: the time is an argument.

A host is in one of three places: in the heap (it waits for its turn, or is remembered until it may be forgotten),
under way (one request at the most), or unknown. So one timer serves any number of hosts, and an idle host costs
nothing once its delay is over. Times are seconds of a monotonic clock.
"""

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from itertools import count
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

MEMORY = 30.0
"""Seconds a host is remembered at the least after its last request: a robots.txt may ask for a longer delay than the
one it was itself fetched under, and the first task that says so comes a little later."""
RECHECK = 0.1
"""Seconds until a lane that may not start requests is asked again."""
LATENESS = 0.2
"""Share of the delay that a request may, at the most, be taken to have reached its server late."""


class Sighting(NamedTuple):
    """What is known of when a server saw a request: some time between these two."""

    written: float
    answered: float


class Job(Generic[T]):
    """One request that is owed. `item` is the caller's."""

    __slots__ = ("accepted", "delay", "host", "item", "lane")

    def __init__(self, lane: object, host: str, delay: float, item: T) -> None:
        self.lane, self.host, self.delay, self.item = lane, host, delay, item
        self.accepted = 0.0


class _Host(Generic[T]):
    __slots__ = ("delay", "floor", "last", "name", "queue", "quickest", "running", "wake")

    def __init__(self, name: str) -> None:
        self.name = name
        self.queue: deque[Job[T]] = deque()
        self.running: Job[T] | None = None
        self.last = float("-inf")
        """When the server saw the last request, as far as can be told."""
        self.quickest = 0.0
        """Shortest time from a request to its answer; 0: none seen."""
        self.floor = float("-inf")
        """No start before this: one delay after the lane's opening."""
        self.delay = 0.0
        """That of the last request."""
        self.wake = 0.0
        """Time of its valid heap entry; others of this host are leftovers."""

    def ready(self, delay: float) -> float:
        return max(self.last + delay, self.floor)

    def seen(self, sighting: Sighting, delay: float) -> None:
        """A request can lie unseen for a while (a new connection, a server out of breath) and the next one not: then
        the server would see a gap shorter than the delay. What an answer took beyond the quickest one may have been
        such a while, so the delay counts from after it, within reason."""
        took = sighting.answered - sighting.written
        late = min(took - self.quickest, LATENESS * delay)
        self.last, self.delay = max(self.last, sighting.written + max(0.0, late)), delay
        if took > 0.0:
            self.quickest = min(self.quickest or took, took)


class Bucket:
    """Tokens for request starts: `rate` a second, a tenth of a second's worth saved up at the most."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._size = max(1.0, rate / 10)
        self._tokens = self._size
        self._at = float("-inf")

    def take(self, now: float) -> bool:
        if not self._rate:
            return True
        if now > self._at:
            self._tokens = min(self._size, self._tokens + (now - max(self._at, now - 60)) * self._rate)
            self._at = now
        if self._tokens < 1.0 - 1e-9:  # the time `next` names must do, rounded as it is
            return False
        self._tokens -= 1.0
        return True

    def next(self, now: float) -> float:
        """When `take` will next succeed."""
        return now + max(0.0, 1.0 - self._tokens) / self._rate if self._rate else now


class Schedule(Generic[T]):
    """Called on the event loop only. `add` → `due` (the job is under way) → `finished`."""

    def __init__(self, *, concurrency: int, rate: float, patience: float) -> None:
        """`concurrency`, `rate`: of the whole process. `patience`: seconds a job may wait for its turn."""
        self._concurrency, self._patience = concurrency, patience
        self._bucket = Bucket(rate)
        self._hosts: dict[str, _Host[T]] = {}
        self._heap: list[tuple[float, int, _Host[T]]] = []
        self._waiting: OrderedDict[Job[T], None] = OrderedDict()  # in order of acceptance
        self._lanes: dict[object, float] = {}
        self._order = count()
        self._patience_from = float("-inf")
        self._starved = False
        self.running = 0

    # ---- lanes and jobs ----

    def open(self, lane: object, now: float) -> None:
        """From now on `lane` has jobs. Its hosts may have been asked by someone else a moment ago."""
        self._lanes[lane] = now

    def drop(self, lane: object) -> None:
        """Forgets what the lane still has waiting. What is under way ends with `finished` as ever."""
        self._lanes.pop(lane, None)
        for job in [job for job in self._waiting if job.lane is lane]:
            del self._waiting[job]
            self._hosts[job.host].queue.remove(job)

    def turn(self, host: str, delay: float, lane: object, now: float) -> float:
        """When a job added now would start, if only its host mattered. An estimate: a request may take longer."""
        known = self._hosts.get(host)
        opened = self._lanes[lane] + delay
        if known is None:
            return max(now, opened)
        first = max(now, opened, known.last + delay, now + delay if known.running else now)
        return first + len(known.queue) * delay

    def add(self, job: Job[T], now: float) -> None:
        job.accepted = now
        host = self._hosts.get(job.host)
        if host is None:
            host = self._hosts[job.host] = _Host(job.host)
        host.floor = max(host.floor, self._lanes[job.lane] + job.delay)
        host.queue.append(job)
        self._waiting[job] = None
        if host.running is None and len(host.queue) == 1:
            self._push(host, max(now, host.ready(job.delay)))

    # ---- turns ----

    def due(self, now: float, may_start: Callable[[Job[T]], bool]) -> list[Job[T]]:
        """The jobs whose requests start now; `may_start` is asked before each, and no bars its lane."""
        starting: list[Job[T]] = []
        barred: set[object] = set()
        self._starved = False
        while self.running < self._concurrency:
            host = self._pop(now)
            if host is None:
                break
            if not host.queue:
                self._rest(host, now)
            elif (ready := host.ready(host.queue[0].delay)) > now:  # another job is first by now, or the lane is new
                self._push(host, ready)
            elif (lane := host.queue[0].lane) in barred or not may_start(host.queue[0]):
                barred.add(lane)
                self._push(host, now + RECHECK)
            elif not self._bucket.take(now):
                self._push(host, host.wake)
                self._starved = True
                break
            else:
                starting.append(self._begin(host))
        return starting

    def _begin(self, host: _Host[T]) -> Job[T]:
        job = host.queue.popleft()
        del self._waiting[job]
        host.running = job
        self.running += 1
        return job

    def finished(self, job: Job[T], now: float, sighting: Sighting | None) -> None:
        """`sighting`: None if nothing was requested."""
        host = self._hosts[job.host]
        host.running = None
        self.running -= 1
        if sighting is not None:
            host.seen(sighting, job.delay)
        if host.queue:
            self._push(host, max(now, host.ready(host.queue[0].delay)))
        else:
            self._rest(host, now)

    def expired(self, now: float) -> Iterator[tuple[Job[T], float]]:
        """Jobs that have waited too long, removed, each with the earliest time its host is free."""
        while self._waiting:
            job = next(iter(self._waiting))
            if max(job.accepted, self._patience_from) + self._patience > now:
                return
            del self._waiting[job]
            host = self._hosts[job.host]
            host.queue.remove(job)
            yield job, max(now, host.ready(job.delay))

    def forgive(self, now: float) -> None:
        """Waiting before `now` does not count: nothing could start (paused)."""
        self._patience_from = now

    def next_wakeup(self, now: float) -> float | None:
        """When `due` or `expired` may next have something; None: not before another call here."""
        times: list[float] = []
        if self._waiting:
            times.append(max(next(iter(self._waiting)).accepted, self._patience_from) + self._patience)
        if self._heap and self.running < self._concurrency:
            head = self._heap[0][0]
            times.append(max(head, self._bucket.next(now)) if self._starved else head)
        return min(times) if times else None

    # ---- figures ----

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def hosts(self) -> int:
        """Known now: waiting, under way or remembered."""
        return len(self._hosts)

    # ---- the heap ----

    def _push(self, host: _Host[T], at: float) -> None:
        host.wake = at
        heapq.heappush(self._heap, (at, next(self._order), host))

    def _pop(self, now: float) -> _Host[T] | None:
        """The host that has been ready for longest, out of the heap; leftovers are thrown away on the way."""
        while self._heap and self._heap[0][0] <= now:
            at, _, host = heapq.heappop(self._heap)
            if host.running is None and at == host.wake and self._hosts.get(host.name) is host:
                return host
        return None

    def _rest(self, host: _Host[T], now: float) -> None:
        """Nothing is owed to it now: remembered as long as it could matter, then forgotten."""
        until = host.last + max(host.delay, MEMORY)
        if until > now:
            self._push(host, until)
        else:
            del self._hosts[host.name]
