"""The dispatcher's books stay right however a request ends."""

import asyncio

from prometheus_client import CollectorRegistry

from headrace_fetcher.dispatch import Dispatcher, Errand
from headrace_fetcher.fetch import Answer, Trip
from headrace_fetcher.meters import Meters
from headrace_fetcher.robots import Hold
from headrace_fetcher.schedule import Schedule
from headrace_runtime.clock import Deadline, SystemClock
from headrace_runtime.streams.seams import Record
from headrace_schemas.messages import Control, CrawlSettings, FetchTask
from tests.fetcher.rig import task


class Customer:
    def __init__(self) -> None:
        self.answers: list[Answer] = []

    def may_start(self) -> bool:
        return True

    def answered(self, errand: Errand, answer: Answer, waited: float, latency: float) -> None:
        self.answers.append(answer)


async def never(task: FetchTask, trip: Trip, hold: Hold) -> Answer:
    await asyncio.sleep(60)
    raise AssertionError("not reached")


async def test_a_request_cut_off_before_its_first_step_leaves_no_place_taken() -> None:
    schedule: Schedule[Errand] = Schedule(concurrency=1, rate=0.0, patience=30.0)
    clock = SystemClock()
    dispatcher = Dispatcher(schedule, never, clock, Meters(CollectorRegistry(), clock))
    dispatcher.control(Control(1, CrawlSettings()))
    running = asyncio.create_task(dispatcher.run())
    for steps in range(6):  # after so many turns of the loop: before the start, right at it, after it
        customer = Customer()
        dispatcher.join(customer)
        record = Record("urls.to_fetch", 0, steps, b"", b"", 0.0)
        dispatcher.submit(Errand(customer, record, task(f"http://h{steps}.example/")))
        for _ in range(steps):
            await asyncio.sleep(0)
        await dispatcher.leave(customer, Deadline(0.0))
        await asyncio.sleep(0)
        assert (schedule.running, schedule.waiting, dispatcher.busy) == (0, 0, 0), steps
        assert not customer.answers
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
