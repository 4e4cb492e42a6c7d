"""Starts each request in its turn: the one place of the process where requests begin, so the one that holds them back.

Per job: due → still valid? → attempt → the host's clock → reply. A request begins only while the crawl is running and
its lane is certainly ours.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from headrace_fetcher.fetch import Answer, Trip
from headrace_fetcher.meters import Meters
from headrace_fetcher.robots import Hold
from headrace_fetcher.schedule import RECHECK, Job, Schedule, Sighting
from headrace_runtime.clock import Clock, Deadline
from headrace_runtime.logs import get_logger
from headrace_runtime.streams.seams import Record
from headrace_schemas.messages import Control, Deferred, Failed, FetchedPage, FetchTask, Refused

log = get_logger("fetcher")


class Customer(Protocol):
    """A lane's worker, to the dispatcher."""

    def may_start(self) -> bool:
        """Whether the outside world may see a request of this lane now."""
        ...

    def answered(self, errand: "Errand", answer: Answer, waited: float, latency: float) -> None: ...


@dataclass(slots=True, eq=False)
class Errand:
    customer: Customer
    record: Record
    task: FetchTask


Attempt = Callable[[FetchTask, Trip, Hold], Awaitable[Answer]]


class Dispatcher:
    """One per process. `run` is its background task; everything else is called on the same event loop."""

    def __init__(self, schedule: Schedule[Errand], attempt: Attempt, clock: Clock, meters: Meters) -> None:
        self.schedule = schedule
        self._attempt, self._clock, self._meters = attempt, clock, meters
        self._under_way: dict[asyncio.Task[None], Job[Errand]] = {}
        self._news = asyncio.Event()
        self._open = False

    # ---- called by others ----

    def control(self, control: Control) -> None:
        """Paused or stopping: nothing starts; what waits is held."""
        was, self._open = self._open, control.mode == "running"
        if self._open and not was:
            self.schedule.forgive(self._clock.monotonic())
        self._news.set()

    @property
    def open(self) -> bool:
        return self._open

    def join(self, customer: Customer) -> None:
        self.schedule.open(customer, self._clock.monotonic())

    def wait_for(self, customer: Customer, task: FetchTask) -> float:
        """Seconds until a request for `task` could start, if only its host mattered."""
        now = self._clock.monotonic()
        return self.schedule.turn(task.host, task.delay, customer, now) - now

    def submit(self, errand: Errand) -> None:
        job = Job(errand.customer, errand.task.host, errand.task.delay, errand)
        self.schedule.add(job, self._clock.monotonic())
        self._news.set()

    async def leave(self, customer: Customer, deadline: Deadline) -> None:
        """Nothing of `customer` starts any more; returns when what was under way has ended, cut off at the deadline."""
        self.schedule.drop(customer)
        own = [task for task, job in self._under_way.items() if job.lane is customer]
        if own and deadline.left:
            await asyncio.wait(own, timeout=deadline.left)
        for task in own:
            task.cancel()
        await asyncio.gather(*own, return_exceptions=True)

    @property
    def busy(self) -> int:
        return len(self._under_way)

    # ---- the turns ----

    async def run(self) -> None:
        try:
            while True:
                self._news.clear()
                wake = self._turn() if self._open else None
                self._meters.hosts.set(self.schedule.hosts)
                await self._rest(wake)
        finally:
            for task in list(self._under_way):
                task.cancel()

    def _turn(self) -> float | None:
        now = self._clock.monotonic()
        for job, free in self.schedule.expired(now):
            self._put_off(job, self._clock.now() + free - now, "wait")
        for job in self.schedule.due(now, _may_start):
            self._begin(job, now)
        return self.schedule.next_wakeup(now)

    async def _rest(self, wake: float | None) -> None:
        if wake is None:
            await self._news.wait()
            return
        timer = asyncio.get_running_loop().call_later(max(0.0, wake - self._clock.monotonic()), self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()

    def _begin(self, job: Job[Errand], now: float) -> None:
        if self._clock.now() > job.item.task.valid_until:
            self.schedule.finished(job, now, None)
            self._put_off(job, self._clock.now(), "stale")
            self._news.set()
            return
        trip = Trip(now)
        task = asyncio.create_task(self._serve(job, trip))
        self._under_way[task] = job
        self._meters.active.set(len(self._under_way))
        task.add_done_callback(partial(self._ended, job, trip))

    def _ended(self, job: Job[Errand], trip: Trip, task: "asyncio.Task[None]") -> None:
        """However it ended: a task cancelled before its first step has run no line of its own, `finally` included."""
        now = self._clock.monotonic()
        self.schedule.finished(job, now, _sighting(trip, now))
        del self._under_way[task]
        self._meters.active.set(len(self._under_way))
        self._news.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.exception("an attempt ended without an answer", of=error)

    def _put_off(self, job: Job[Errand], not_before: float, reason: str) -> None:
        waited = self._clock.monotonic() - job.accepted
        job.item.customer.answered(job.item, Answer(Deferred(not_before, reason)), waited, 0.0)

    # ---- one request ----

    async def _serve(self, job: Job[Errand], trip: Trip) -> None:
        customer = job.item.customer
        try:
            answer = await self._attempt(job.item.task, trip, lambda until: self._hold(customer, until))
        except Exception as error:
            answer = _crashed(job, error)
        waited, latency = trip.started - job.accepted, self._clock.monotonic() - trip.started
        self._note(answer, trip, latency)
        try:
            customer.answered(job.item, answer, waited, latency)
        except Exception as error:  # an answer that cannot be encoded must not leave its offset open for ever
            customer.answered(job.item, _crashed(job, error), waited, latency)

    async def _hold(self, customer: Customer, until: float) -> None:
        while True:
            left = until - self._clock.monotonic()
            if left <= 0 and self._open and customer.may_start():
                return
            await asyncio.sleep(left if left > 0 else RECHECK)

    def _note(self, answer: Answer, trip: Trip, seconds: float) -> None:
        match answer.outcome:
            case Failed(reason=reason):
                pass
            case Refused():
                reason = "refused"
            case _:
                reason = ""
        self._meters.attempt(reason=reason, status=trip.status, received=trip.received, seconds=seconds)
        if isinstance(answer.page, FetchedPage):
            self._meters.page()


def _sighting(trip: Trip, ended: float) -> Sighting | None:
    """Where it is not known when the request went out, the end of the attempt is the safe side."""
    if not trip.asked:
        return None
    return Sighting(ended, ended) if trip.written is None else Sighting(trip.written, trip.answered)


def _crashed(job: Job[Errand], error: Exception) -> Answer:
    log.exception("an attempt crashed", of=error, url=job.item.task.url)
    return Answer(Failed("crashed", detail=f"{type(error).__name__}: {error}"[:200]))


def _may_start(job: Job[Errand]) -> bool:
    return job.item.customer.may_start()
