"""The politeness clock: whose turn it is, for all hosts of the process. Pure: the time is an argument.

A host is in the heap (it waits for its turn, or is remembered until it may be forgotten), full (as many requests under
way as it may have), parked (its lane may not start anything now), or unknown. So one timer serves any number of hosts,
and a start costs the logarithm of their number. A heap entry is only ever a reason to look: whoever is taken from the
heap is judged anew, so a leftover can cost a look but never a request too soon. Times are seconds of a monotonic clock.
"""

import heapq
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import count
from typing import Generic, TypeVar

from headrace_fetcher.bucket import Bucket
from headrace_fetcher.host_clock import NEVER, HostClock, Job, Sighting

T = TypeVar("T")

MEMORY = 300.0
"""Seconds a host is remembered at the least after its last request. A robots.txt may ask for a longer delay than the
one it was itself fetched under, and the first task that says so may come late (a full backlog, a pause)."""
RECHECK = 0.1
"""Seconds until a lane that may not start requests is asked again."""


class _Lane(Generic[T]):
    __slots__ = ("opened", "parked", "waiting")

    def __init__(self, opened: float) -> None:
        self.opened = opened
        self.waiting: set[Job[T]] = set()
        self.parked: dict[HostClock[T], None] | None = None
        """Hosts whose turn has come while the lane may not start anything; None: it may, as far as is known."""


class Schedule(Generic[T]):
    """Called on the event loop only. `add` → `due` (the job is under way) → `finished`."""

    def __init__(self, *, concurrency: int, rate: float, patience: float, memory: float = MEMORY) -> None:
        """`concurrency`, `rate`: of the whole process. `patience`: seconds a job may wait for its turn. `memory`: the
        longest delay that a host may turn out to want."""
        self._concurrency, self._patience, self._memory = concurrency, patience, memory
        self._bucket = Bucket(rate)
        self._hosts: dict[str, HostClock[T]] = {}
        self._heap: list[tuple[float, int, HostClock[T]]] = []
        self._waiting: OrderedDict[Job[T], None] = OrderedDict()  # in order of acceptance
        self._lanes: dict[object, _Lane[T]] = {}
        self._barred: dict[object, _Lane[T]] = {}  # those with parked hosts
        self._recheck = 0.0
        self._order = count()
        self._patience_from = NEVER
        self._starved = False
        self.running = 0

    # ---- lanes and jobs ----

    def open(self, lane: object, now: float) -> None:
        """From now on `lane` has jobs. Its hosts may have been asked by someone else a moment ago."""
        self._lanes[lane] = _Lane(now)

    def has(self, lane: object) -> bool:
        return lane in self._lanes

    def drop(self, lane: object) -> list[Job[T]]:
        """Forgets what the lane still has waiting: → those jobs. What is under way ends with `finished` as ever."""
        left = self._lanes.pop(lane, None)
        if left is None:
            return []
        for host in {self._hosts[job.host] for job in left.waiting}:
            host.queue = [job for job in host.queue if job.lane is not lane]
        for job in left.waiting:
            del self._waiting[job]
        self._admit(lane, left)
        return list(left.waiting)

    def turn(self, host: str, delay: float, lane: object, now: float) -> float:
        """When a job added now would start, if only its host mattered. An estimate: a request may take longer."""
        known = self._hosts.get(host)
        opened = self._lanes[lane].opened + delay
        if known is None:
            return max(now, opened)
        first = max(now, opened, known.ready(delay), now + delay if known.under_way else now)
        return first + len(known.queue) * delay

    def add(self, job: Job[T], now: float, *, first: bool = False) -> None:
        """`first`: before all others of its host."""
        job.accepted = now
        lane = self._lanes[job.lane]
        host = self._hosts.get(job.host)
        if host is None:
            host = self._hosts[job.host] = HostClock(job.host)
        host.floor = max(host.floor, lane.opened + job.delay)
        host.queue.insert(0 if first else len(host.queue), job)
        self._waiting[job] = None
        lane.waiting.add(job)
        if host.queue[0] is job:
            self._place(host, now)

    # ---- turns ----

    def due(self, now: float, may_start: Callable[[Job[T]], bool]) -> list[Job[T]]:
        """The jobs whose requests start now; `may_start` is asked before each, and no bars its lane."""
        starting: list[Job[T]] = []
        self._starved = False
        if self._barred and now >= self._recheck:
            self._ask_again(now, may_start)
        while self.running < self._concurrency:
            host = self._pop(now)
            if host is None:
                break
            if not host.queue or not host.has_room():
                self._place(host, now)
                continue
            job = host.queue[0]
            if (ready := host.ready(job.delay)) > now:  # another job is first by now, or the lane is new
                self._push(host, ready)
            elif job.lane in self._barred or not may_start(job):
                self._park(host, job.lane, now)
            elif not self._bucket.take(now):
                self._push(host, host.wake)
                self._starved = True
                break
            else:
                self._leaves(host.begin(now))
                self.running += 1
                starting.append(job)
                self._place(host, now)
        return starting

    def step_aside(self, job: Job[T]) -> None:
        """It is not to be requested yet, after all: others take its place among all requests, but none at its host."""
        job.aside = True
        self.running -= 1
        self._bucket.give_back()

    def finished(self, job: Job[T], now: float, sighting: Sighting | None) -> None:
        """`sighting`: None if nothing was requested."""
        host = self._hosts[job.host]
        host.end(job, sighting)
        if not job.aside:
            self.running -= 1
        job.aside = False
        self._place(host, now)

    def expired(self, now: float) -> Iterator[tuple[Job[T], float]]:
        """Jobs that have waited too long, removed, each with the earliest time its host is free."""
        while self._waiting:
            job = next(iter(self._waiting))
            if max(job.accepted, self._patience_from) + self._patience > now:
                return
            self._leaves(job)
            host = self._hosts[job.host]
            host.queue.remove(job)  # one of the oldest, so one of the first
            if host.queue and host.queue[0].delay < job.delay:  # or its heap entry would let it sleep for too long
                self._place(host, now)
            yield job, max(now, host.ready(job.delay))

    def failed(self, name: str, failed: bool) -> int:
        """An attempt at that host has ended; → how many in a row have failed."""
        host = self._hosts[name]
        host.faults = host.faults + 1 if failed else 0
        return host.faults

    def hold(self, name: str, until: float, leaves: Callable[[Job[T]], bool]) -> list[Job[T]]:
        """No request of that host starts before `until`; → what waits for it and `leaves`, removed."""
        host = self._hosts[name]
        host.floor = max(host.floor, until)
        left = [job for job in host.queue if leaves(job)]
        host.queue = [job for job in host.queue if job not in left]
        for job in left:
            self._leaves(job)
        return left

    def forgive(self, now: float) -> None:
        """Waiting before `now` does not count: nothing could start (paused)."""
        self._patience_from = now

    def next_wakeup(self, now: float) -> float | None:
        """When `due` or `expired` may next have something; None: not before another call here."""
        times: list[float] = []
        if self._waiting:
            times.append(max(next(iter(self._waiting)).accepted, self._patience_from) + self._patience)
        if self.running < self._concurrency:
            if self._heap:
                head = self._heap[0][0]
                times.append(max(head, self._bucket.next(now)) if self._starved else head)
            if self._barred:
                times.append(self._recheck)
        return min(times) if times else None

    # ---- figures ----

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def hosts(self) -> int:
        """Known now: waiting, under way or remembered."""
        return len(self._hosts)

    # ---- lanes that may not start anything ----

    def _park(self, host: HostClock[T], lane: object, now: float) -> None:
        """Out of the heap: looking at each of thousands of hosts ten times a second would be all there is time for."""
        if not self._barred:
            self._recheck = now + RECHECK
        barred = self._barred.setdefault(lane, self._lanes[lane])
        if barred.parked is None:
            barred.parked = {}
        barred.parked[host] = None

    def _ask_again(self, now: float, may_start: Callable[[Job[T]], bool]) -> None:
        self._recheck = now + RECHECK
        for name, lane in list(self._barred.items()):
            own = (host.queue[0] for host in lane.parked or () if host.queue and host.queue[0].lane is name)
            job = next(own, None)
            if job is None or may_start(job):
                self._admit(name, lane)

    def _admit(self, name: object, lane: _Lane[T]) -> None:
        self._barred.pop(name, None)
        parked, lane.parked = lane.parked, None
        for host in parked or ():
            self._push(host, host.wake)  # its old place: whose turn came first goes first

    # ---- the heap ----

    def _leaves(self, job: Job[T]) -> None:
        del self._waiting[job]
        self._lanes[job.lane].waiting.discard(job)

    def _place(self, host: HostClock[T], now: float) -> None:
        """Where it belongs by now. A full host belongs nowhere: the end of a request brings it back."""
        if not host.queue:
            if not host.under_way:
                self._rest(host, now)
        elif host.has_room():
            self._push(host, max(now, host.ready(host.queue[0].delay)))

    def _rest(self, host: HostClock[T], now: float) -> None:
        """Nothing is owed to it now: remembered as long as it could matter, then forgotten."""
        until = max(host.last + max(host.delay, self._memory), host.floor)
        if until > now:
            if host.rests < now:
                host.rests = until
                heapq.heappush(self._heap, (until, next(self._order), host))
        elif self._hosts.get(host.name) is host:
            del self._hosts[host.name]

    def _push(self, host: HostClock[T], at: float) -> None:
        host.wake = at
        heapq.heappush(self._heap, (at, next(self._order), host))

    def _pop(self, now: float) -> HostClock[T] | None:
        """The host that has been ready for longest, out of the heap; leftovers are thrown away on the way."""
        while self._heap and self._heap[0][0] <= now:
            at, _, host = heapq.heappop(self._heap)
            if self._hosts.get(host.name) is not host:
                continue
            if at == host.wake:
                return host
            if at == host.rests:
                host.rests = NEVER
                if not host.queue:
                    self._place(host, now)
        return None
