"""The dispatcher's books stay right however a request ends."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry

from headrace_fetcher.dispatch import Attempt, Dispatcher, Unknown
from headrace_fetcher.errand import Errand
from headrace_fetcher.faults import TransportFault
from headrace_fetcher.meters import Meters
from headrace_fetcher.schedule import Schedule
from headrace_fetcher.trip import Answer, Hold, Trip
from headrace_runtime.clock import Deadline, SystemClock
from headrace_runtime.streams.seams import Record
from headrace_schemas.messages import Control, CrawlSettings, Failed, FetchTask, Robots
from headrace_schemas.urls import host_of
from tests.fetcher.rig import task


class Customer:
    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def may_start(self) -> bool:
        return True

    def answered(self, errand: Errand, answer: Answer, waited: float, latency: float) -> None:
        self.answers.append(answer)


def known(url: str) -> None:
    """Every name."""


@asynccontextmanager
async def dispatching(
    attempt: Attempt, *, concurrency: int = 10, patience: float = 30.0, unknown: Unknown = known
) -> AsyncIterator[Dispatcher]:
    schedule: Schedule[Errand] = Schedule(concurrency=concurrency, rate=0.0, patience=patience)
    clock = SystemClock()
    dispatcher = Dispatcher(schedule, attempt, clock, Meters(CollectorRegistry(), clock), host_of, unknown, 3_600.0)
    dispatcher.control(Control(1, CrawlSettings()))
    running = asyncio.create_task(dispatcher.run())
    yield dispatcher
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def errand(customer: Customer, url: str, *, delay: float = 0.0, connections: int = 1) -> Errand:
    record = Record("urls.to_fetch", 0, 0, b"", b"", 0.0)
    return Errand(customer, record, task(url, delay=delay, connections=connections))


async def answered(dispatcher: Dispatcher, customer: Customer, number: int) -> None:
    """Returns when so many answers are there and the dispatcher has put its books in order."""
    async with asyncio.timeout(20):
        while len(customer.answers) < number or dispatcher.busy:
            await asyncio.sleep(0.005)


async def never(task: FetchTask, trip: Trip, hold: Hold) -> Answer:
    await asyncio.sleep(60)
    raise AssertionError("not reached")


def books(dispatcher: Dispatcher) -> tuple[int, int, int]:
    return dispatcher.schedule.running, dispatcher.schedule.waiting, dispatcher.busy


async def test_a_request_cut_off_before_its_first_step_leaves_no_place_taken() -> None:
    async with dispatching(never, concurrency=1) as dispatcher:
        for steps in range(6):  # after so many turns of the loop: before the start, right at it, after it
            customer = Customer()
            dispatcher.join(customer)
            dispatcher.submit(errand(customer, f"http://h{steps}.example/"))
            for _ in range(steps):
                await asyncio.sleep(0)
            await dispatcher.leave(customer, Deadline(0.0))
            await asyncio.sleep(0)
            assert books(dispatcher) == (0, 0, 0), steps
            assert not customer.answers


# ---- how many at once ----


class Crowd:
    """An attempt that notes how many of a host were under way together."""

    def __init__(self) -> None:
        self.now: defaultdict[str, int] = defaultdict(int)
        self.most: defaultdict[str, int] = defaultdict(int)

    async def attempt(self, task: FetchTask, trip: Trip, hold: Hold) -> Answer:
        self.now[task.host] += 1
        self.most[task.host] = max(self.most[task.host], self.now[task.host])
        await asyncio.sleep(0.02)
        self.now[task.host] -= 1
        return Answer(Robots(200))


async def test_only_a_host_that_a_setting_names_has_more_than_one_request_under_way() -> None:
    crowd, customer = Crowd(), Customer()
    async with dispatching(crowd.attempt, concurrency=100) as dispatcher:
        dispatcher.join(customer)
        for number in range(12):
            dispatcher.submit(errand(customer, f"http://named.example/{number}", connections=3))
            dispatcher.submit(errand(customer, f"http://other.example/{number}"))
        await answered(dispatcher, customer, 24)
        assert dict(crowd.most) == {"named.example": 3, "other.example": 1}


async def test_origins_of_one_host_share_its_one_place() -> None:
    crowd, customer = Crowd(), Customer()
    async with dispatching(crowd.attempt) as dispatcher:
        dispatcher.join(customer)
        for origin in ("http://h.example", "https://h.example", "http://h.example:8080"):
            for path in ("/robots.txt", "/"):
                dispatcher.submit(errand(customer, origin + path))
        await answered(dispatcher, customer, 6)
        assert dict(crowd.most) == {"h.example": 1}


# ---- an attempt that goes on to another URL ----


class Hops:
    """An attempt that asks a second time where the path says so; `order` is what the server would see."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.under_way = self.most = 0

    async def attempt(self, task: FetchTask, trip: Trip, hold: Hold) -> Answer:
        await self._ask(task.url)
        if task.url.endswith("/moved"):
            trip.hops.append((task.host, 1.0))
            await hold(task.url)
            await self._ask(task.url + "#2")
        return Answer(Robots(200))

    async def _ask(self, url: str) -> None:
        self.order.append(url)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await asyncio.sleep(0.01)
        self.under_way -= 1


async def test_a_hop_queues_again_before_the_others_of_its_host() -> None:
    hops, customer = Hops(), Customer()
    async with dispatching(hops.attempt) as dispatcher:
        dispatcher.join(customer)
        for path in ("moved", "page", "other"):
            dispatcher.submit(errand(customer, f"http://h.example/{path}"))
        await answered(dispatcher, customer, 3)
        assert [url.rpartition("/")[2] for url in hops.order] == ["moved", "moved#2", "page", "other"]
        assert hops.most == 1
        assert books(dispatcher) == (0, 0, 0)


async def test_hops_of_many_hosts_need_no_more_places_than_there_are() -> None:
    hops, customer = Hops(), Customer()
    async with dispatching(hops.attempt, concurrency=1) as dispatcher:
        dispatcher.join(customer)
        for number in range(5):
            dispatcher.submit(errand(customer, f"http://h{number}.example/moved"))
        await answered(dispatcher, customer, 5)
        assert len(hops.order) == 10
        assert hops.most == 1


async def test_a_hop_that_waits_is_cut_off_at_once_when_its_lane_leaves() -> None:
    hops, customer = Hops(), Customer()
    async with dispatching(hops.attempt) as dispatcher:
        dispatcher.join(customer)
        dispatcher.submit(errand(customer, "http://h.example/moved", delay=0.1))
        while not (hops.order and dispatcher.schedule.waiting):  # asked once, and in the queue for the second
            await asyncio.sleep(0.005)
        async with asyncio.timeout(10):
            dispatcher.control(Control(2, CrawlSettings(), mode="paused"))  # so that it cannot slip through
            await dispatcher.leave(customer, Deadline(60.0))
        assert len(hops.order) == 1
        assert books(dispatcher) == (0, 0, 0)
        assert not customer.answers


async def test_a_hop_of_a_lane_that_has_left_asks_nothing_more() -> None:
    hops, customer = Hops(), Customer()
    async with dispatching(hops.attempt) as dispatcher:
        dispatcher.join(customer)
        dispatcher.submit(errand(customer, "http://h.example/moved"))
        while not hops.under_way:
            await asyncio.sleep(0)
        await dispatcher.leave(customer, Deadline(60.0))
        assert len(hops.order) == 1
        assert books(dispatcher) == (0, 0, 0)


async def test_a_hop_cut_off_while_it_waits_leaves_its_place_to_others() -> None:
    hops, customer = Hops(), Customer()
    async with dispatching(hops.attempt, concurrency=1) as dispatcher:
        dispatcher.join(customer)
        dispatcher.submit(errand(customer, "http://h.example/moved", delay=0.05))
        while not (hops.order and dispatcher.schedule.waiting):
            await asyncio.sleep(0.001)
        for running in list(dispatcher._under_way):
            running.cancel()
        dispatcher.submit(errand(customer, "http://h.example/page"))
        await answered(dispatcher, customer, 1)
        assert [url.rpartition("/")[2] for url in hops.order] == ["moved", "page"]
        assert books(dispatcher) == (0, 0, 0)


async def test_a_hop_whose_turn_does_not_come_in_time_fails_and_may_be_tried_again() -> None:
    hops, customer = Hops(), Customer()
    async with dispatching(hops.attempt, patience=0.1) as dispatcher:
        dispatcher.join(customer)
        dispatcher.schedule._lanes[customer].opened -= 1_000  # or the first request would wait as long
        dispatcher.submit(errand(customer, "http://h.example/moved", delay=500.0))
        await answered(dispatcher, customer, 1)
        outcome = customer.answers[0].outcome
        assert isinstance(outcome, Failed)
        assert (outcome.reason, outcome.retriable) == ("timeout", True)
        assert len(hops.order) == 1
        figures = customer.answers[0].figures
        assert (figures.asked_at, figures.hops) == (0.0, (("h.example", 1.0),)), "what was asked is told all the same"
        assert books(dispatcher) == (0, 0, 0)


# ---- names ----


class Directory:
    """Names whose lookup ends when a test says so."""

    def __init__(self) -> None:
        self.asked: dict[str, asyncio.Future[None]] = {}

    def unknown(self, url: str) -> asyncio.Future[None] | None:
        asked = self.asked.setdefault(url, asyncio.get_running_loop().create_future())
        return None if asked.done() else asked


async def asked_for(dispatcher: Dispatcher, directory: Directory, *urls: str) -> None:
    async with asyncio.timeout(20):
        while set(directory.asked) != set(urls) or dispatcher.schedule.running:
            await asyncio.sleep(0.001)


async def test_a_name_that_hangs_keeps_nobody_waiting_but_its_own_host() -> None:
    crowd, customer, directory = Crowd(), Customer(), Directory()
    hung = [f"http://h{number}.example/" for number in range(20)]
    async with dispatching(crowd.attempt, concurrency=1, unknown=directory.unknown) as dispatcher:
        dispatcher.join(customer)
        for url in hung:
            dispatcher.submit(errand(customer, url))
            dispatcher.submit(errand(customer, url + "next"))
        await asked_for(dispatcher, directory, *hung)
        directory.asked["http://good.example/"] = done = asyncio.get_running_loop().create_future()
        done.set_result(None)
        dispatcher.submit(errand(customer, "http://good.example/"))
        async with asyncio.timeout(20):
            while not customer.answers:
                await asyncio.sleep(0.001)
        assert dict(crowd.most) == {"good.example": 1}
        for url in list(directory.asked):
            for name in (url, url + "next"):
                directory.asked.setdefault(name, asyncio.get_running_loop().create_future())
        for lookup in directory.asked.values():
            if not lookup.done():
                lookup.set_result(None)
        await answered(dispatcher, customer, 41)
        assert set(crowd.most.values()) == {1}
        assert books(dispatcher) == (0, 0, 0)


async def test_a_name_without_an_address_is_told_by_the_attempt_that_wanted_it() -> None:
    async def attempt(task: FetchTask, trip: Trip, hold: Hold) -> Answer:
        assert isinstance(trip.fault, TransportFault)
        return Answer(Failed(trip.fault.reason))

    customer, directory = Customer(), Directory()
    async with dispatching(attempt, unknown=directory.unknown) as dispatcher:
        dispatcher.join(customer)
        dispatcher.submit(errand(customer, "http://h.example/"))
        await asked_for(dispatcher, directory, "http://h.example/")
        directory.asked["http://h.example/"].set_exception(TransportFault("dns", "no such name"))
        await answered(dispatcher, customer, 1)
        assert customer.answers[0].outcome == Failed("dns")


async def test_a_lane_that_leaves_does_not_wait_for_names() -> None:
    customer, directory = Customer(), Directory()
    async with dispatching(never, unknown=directory.unknown) as dispatcher:
        dispatcher.join(customer)
        dispatcher.submit(errand(customer, "http://h.example/"))
        await asked_for(dispatcher, directory, "http://h.example/")
        async with asyncio.timeout(10):
            await dispatcher.leave(customer, Deadline(60.0))
        await asyncio.sleep(0)
        assert books(dispatcher) == (0, 0, 0)
        assert not customer.answers
        assert dispatcher.schedule.hosts == 0
