"""A task as the dispatcher carries it: for whom, and how far it has come."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from headrace_fetcher.host_clock import Job
from headrace_fetcher.trip import Answer, Trip
from headrace_runtime.streams.seams import Record
from headrace_schemas.errors import HeadraceError
from headrace_schemas.messages import FetchTask


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
    way: "Way | None" = None
    """Of an attempt that is under way already, and waits for the next host's turn."""
    named: bool = False
    """Its host's name has been looked up, or need not be."""
    fault: HeadraceError | None = None
    """What came of that, if it was no address."""


class Way:
    """One attempt's way through the schedule: a job for each host it asks, one after the other."""

    __slots__ = ("job", "trip", "turn")

    def __init__(self, job: Job[Errand], trip: Trip) -> None:
        self.job: Job[Errand] | None = job
        """The one that is under way; None while it waits."""
        self.trip = trip
        self.turn: asyncio.Future[None] | None = None


class NotInTime(Exception):
    """The host that an attempt wanted to go on to was not free within the patience of the schedule."""
