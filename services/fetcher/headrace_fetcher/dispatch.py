"""Starts each request in its turn: the one place of the process where requests begin, so the one that holds them back.

Per job: due → still valid? → its name known? → attempt → the host's clock → reply. A request begins only while the
crawl is running and its lane is certainly ours. An attempt that goes on to another URL (a robots.txt's redirect) gives
its place up and queues again, as a job of the host it goes to: so every request has its turn, and two that cross cannot
wait for each other. A name is looked up without a place: a dead name server keeps nobody waiting but those who want its
names.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from headrace_fetcher.errand import Customer, Errand, NotInTime, Way
from headrace_fetcher.host_clock import Job, Sighting
from headrace_fetcher.meters import Meters
from headrace_fetcher.schedule import Schedule
from headrace_fetcher.trip import Answer, Hold, Trip
from headrace_runtime.clock import Clock, Deadline
from headrace_runtime.logs import get_logger
from headrace_schemas.errors import HeadraceError
from headrace_schemas.messages import Control, Deferred, Failed, FetchedPage, FetchTask, Outcome, Refused

log = get_logger("fetcher")

_MAY_ASK_FOR_REST = frozenset({429, 503})  # with Retry-After (RFC 6585 section 4, RFC 9110 section 10.2.3)
_IN_DOUBT = 2
"""Failures in a row: one bad page among good ones costs its neighbours nothing."""

Attempt = Callable[[FetchTask, Trip, Hold], Awaitable[Answer]]
Unknown = Callable[[str], Awaitable[object] | None]
"""URL → None, or what to wait for until something is known of its host's name."""


class Dispatcher:
    """One per process. `run` is its background task; everything else is called on the same event loop."""

    def __init__(
        self,
        schedule: Schedule[Errand],
        attempt: Attempt,
        clock: Clock,
        meters: Meters,
        key_of: Callable[[str], str],
        unknown: Unknown,
        longest_rest: float,
    ) -> None:
        """`key_of`: URL → politeness key, as tasks name their hosts. `longest_rest`: seconds of a Retry-After that are
        honoured."""
        self.schedule, self._key_of, self._unknown, self._longest_rest = schedule, key_of, unknown, longest_rest
        self._attempt, self._clock, self._meters = attempt, clock, meters
        self._under_way: dict[asyncio.Task[None], Job[Errand]] = {}
        self._aside: dict[asyncio.Task[HeadraceError | None], Job[Errand]] = {}
        """Jobs whose host's name is being looked up."""
        self._news = asyncio.Event()
        self._open = False
        meters.watch(active=lambda: self.busy, hosts=lambda: schedule.hosts)

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
        task = errand.task
        job = Job(errand.customer, task.host, task.delay, errand, task.connections)
        self.schedule.add(job, self._clock.monotonic())
        self._news.set()

    async def leave(self, customer: Customer, deadline: Deadline) -> None:
        """Nothing of `customer` starts any more; returns when what was under way has ended, cut off at the deadline."""
        for job in self.schedule.drop(customer):
            if job.item.way is not None and job.item.way.turn is not None:
                job.item.way.turn.cancel()  # its turn would never come
        named = [task for task, job in self._aside.items() if job.lane is customer]
        for task in named:
            task.cancel()
        own = [task for task, job in self._under_way.items() if job.lane is customer]
        if own and deadline.left:
            await asyncio.wait(own, timeout=deadline.left)
        for task in own:
            task.cancel()
        await asyncio.gather(*own, *named, return_exceptions=True)

    @property
    def busy(self) -> int:
        return len(self._under_way)

    # ---- the turns ----

    async def run(self) -> None:
        try:
            while True:
                self._news.clear()
                wake = self._turn() if self._open else None
                await self._rest(wake)
        finally:
            for task in [*self._under_way, *self._aside]:
                task.cancel()

    def _turn(self) -> float | None:
        now = self._clock.monotonic()
        for job, free in self.schedule.expired(now):
            if job.item.way is None:
                self._put_off(job, self._clock.now() + free - now, "wait")
            elif (turn := job.item.way.turn) is not None and not turn.done():
                turn.set_exception(NotInTime)
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
        if job.item.way is not None:
            self._go_on(job, job.item.way, now)
            return
        if self._clock.now() > job.item.task.valid_until:
            self.schedule.finished(job, now, None)
            self._put_off(job, self._clock.now(), "stale")
            self._news.set()
            return
        if not job.item.named and (address := self._unknown(job.item.task.url)) is not None:
            self._step_aside(job, address)
            return
        way = Way(job, Trip(now, fault=job.item.fault))
        task = asyncio.create_task(self._serve(job, way))
        self._under_way[task] = job
        task.add_done_callback(partial(self._ended, way))

    def _step_aside(self, job: Job[Errand], address: Awaitable[object]) -> None:
        self.schedule.step_aside(job)
        task = asyncio.create_task(_fault_of(address))
        self._aside[task] = job
        task.add_done_callback(self._comes_back)
        self._news.set()

    def _comes_back(self, task: "asyncio.Task[HeadraceError | None]") -> None:
        """The next of its host, whatever came of it: a name without an address is for the attempt to tell."""
        job, now = self._aside.pop(task), self._clock.monotonic()
        self.schedule.finished(job, now, None)
        if not task.cancelled() and self.schedule.has(job.lane):
            job.item.named, job.item.fault = True, task.result()
            self.schedule.add(job, now, first=True)
        self._news.set()

    def _go_on(self, job: Job[Errand], way: Way, now: float) -> None:
        if way.turn is None or way.turn.done():  # cut off while it waited
            self.schedule.finished(job, now, None)
            self._news.set()
            return
        way.job = job
        way.turn.set_result(None)

    def _ended(self, way: Way, task: "asyncio.Task[None]") -> None:
        """However it ended: a task cancelled before its first step has run no line of its own, `finally` included."""
        self._give_up_place(way)
        del self._under_way[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.exception("an attempt ended without an answer", of=error)

    def _put_off(self, job: Job[Errand], not_before: float, reason: str) -> None:
        waited = self._clock.monotonic() - job.accepted
        job.item.customer.answered(job.item, Answer(Deferred(not_before, reason)), waited, 0.0)

    # ---- one request ----

    async def _serve(self, job: Job[Errand], way: Way) -> None:
        customer, trip = job.item.customer, way.trip
        try:
            answer = await self._attempt(job.item.task, trip, partial(self._next_turn, job.item, way))
        except NotInTime:
            detail = "the host was not free in time for its next request"
            outcome = Failed("timeout", trip.status, True, detail=detail)
            answer = Answer(outcome, figures=trip.figures(outcome, self._clock, 0.0))  # what was asked before is told
        except Exception as error:
            answer = _crashed(job, error)
        if way.job is not None:
            self._heed(way.job.host, answer.outcome)
        waited, latency = trip.started - job.accepted, self._clock.monotonic() - trip.started
        self._note(job.item.task, answer, trip, waited, latency)
        try:
            customer.answered(job.item, answer, waited, latency)
        except Exception as error:  # an answer that cannot be encoded must not leave its offset open for ever
            customer.answered(job.item, _crashed(job, error), waited, latency)

    def _heed(self, host: str, outcome: Outcome) -> None:
        """A host that asks for a rest, or fails twice in a row, gets it from the tasks that were released before, too:
        those go back to the frontier, which decides when the host is asked again, if at all."""
        if isinstance(outcome, Deferred | Refused):
            return  # nothing was asked
        failed = isinstance(outcome, Failed) and (outcome.is_fault or outcome.is_refusal)
        often = self.schedule.failed(host, failed) >= _IN_DOUBT
        rest = self._rest_wanted(outcome)
        if not often and not rest:
            return
        for job in self.schedule.hold(host, self._clock.monotonic() + rest, lambda job: job.item.way is None):
            self._put_off(job, self._clock.now() + rest, "wait")

    def _rest_wanted(self, outcome: Outcome) -> float:
        if not isinstance(outcome, Failed) or outcome.status not in _MAY_ASK_FOR_REST:
            return 0.0
        return max(0.0, min(outcome.retry_after, self._longest_rest))

    async def _next_turn(self, errand: Errand, way: Way, url: str) -> None:
        """Returns when the attempt may go on to `url`: it is a request of that host like any other, but goes before
        those that wait there, or a long queue would cost it its time."""
        self._give_up_place(way)
        if (address := self._unknown(url)) is not None:
            way.trip.fault = await _fault_of(address)
        way.turn = asyncio.get_running_loop().create_future()
        if self.schedule.has(errand.customer):
            again = Errand(errand.customer, errand.record, errand.task, way)
            host, task = self._key_of(url), errand.task
            job = Job(errand.customer, host, task.delay, again, task.connections if host == task.host else 1)
            self.schedule.add(job, self._clock.monotonic(), first=True)
            self._news.set()
        else:
            way.turn.cancel()  # the lane has left meanwhile: nothing of it starts any more
        await way.turn

    def _give_up_place(self, way: Way) -> None:
        if way.job is None:
            return
        now = self._clock.monotonic()
        self.schedule.finished(way.job, now, _sighting(way.trip, now))
        way.job = None
        self._news.set()

    def _note(self, task: FetchTask, answer: Answer, trip: Trip, waited: float, seconds: float) -> None:
        match answer.outcome:
            case Failed(reason=reason):
                pass
            case Refused():
                reason = "refused"
            case _:
                reason = ""
        self._meters.attempt(kind=task.kind, reason=reason, status=trip.status, received=trip.received, seconds=seconds)
        self._meters.phases(waited, answer.figures.phases)
        if isinstance(answer.page, FetchedPage):
            self._meters.page(task.host)


def _sighting(trip: Trip, ended: float) -> Sighting | None:
    """Where it is not known when the request went out, the end of the attempt is the safe side."""
    if not trip.asked:
        return None
    return Sighting(ended, ended) if trip.written is None else Sighting(trip.written, trip.answered)


async def _fault_of(address: Awaitable[object]) -> HeadraceError | None:
    try:
        await address
    except HeadraceError as fault:
        return fault
    except Exception as error:  # a bug: the attempt will meet it, too
        log.exception("a name could not be looked up", of=error)
    return None


def _crashed(job: Job[Errand], error: Exception) -> Answer:
    log.exception("an attempt crashed", of=error, url=job.item.task.url)
    return Answer(Failed("crashed", detail=f"{type(error).__name__}: {error}"[:200]))


def _may_start(job: Job[Errand]) -> bool:
    return job.item.customer.may_start()
