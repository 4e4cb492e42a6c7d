"""The two ways a lane is served: one handler in order (frontier), or many records at once, finished in any order
(fetcher, parser, storer). Both commit everything that is ready in one unit per turn."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Protocol

from headrace_runtime.clock import Clock, Deadline
from headrace_runtime.streams.seams import Lane, Record, Send, Unit

IDLE = 0.25  # seconds a poll waits when nothing is due: the longest a stop or a control change goes unseen
BULK = 1 << 20  # bytes of records in one serial unit: some 50 ms of links, for which nobody else gets the event loop


class Handler(Protocol):
    """Serial and pure: (state, messages, time) → (state, messages). One per lane, so its caches die with it."""

    def handle(self, records: Sequence[Record], unit: Unit, now: float) -> float | None:
        """Stages all that follows from `records` and from the time. → when it next wants to be called, or None."""
        ...

    def committed(self) -> None:
        """The last unit is true now: publish what it changed (metrics)."""
        ...


async def run_serial(
    lane: Lane,
    handler: Handler,
    clock: Clock,
    *,
    batch: int = 500,
    prepare: Callable[[Sequence[Record]], Awaitable[None]] | None = None,
) -> None:
    """`prepare` is awaited before records are handled: what they refer to may have to arrive first."""
    due: float | None = clock.now()
    while lane.stopping is None:
        wait = IDLE if due is None else max(0.0, min(IDLE, due - clock.now()))
        records = await lane.poll(batch, wait)
        if lane.stopping is not None:
            break
        if prepare is not None:
            await prepare(records)
        for some in _in_bulks(records):
            if lane.stopping is not None:
                break  # what is left is read again by the next owner
            unit = Unit(lane.state)
            due = handler.handle(some, unit, clock.now())
            unit.done.extend(some)
            if not unit.empty:
                await lane.commit(unit)
                handler.committed()
            await asyncio.sleep(lane.linger if len(records) < batch else 0)


def _in_bulks(records: Sequence[Record]) -> Iterator[Sequence[Record]]:
    """In order, once at least: with no record there may be something due."""
    size = start = 0
    for at, record in enumerate(records):
        size += len(record.value)
        if size >= BULK:
            yield records[start : at + 1]
            size, start = 0, at + 1
    if start < len(records) or not records:
        yield records[start:]


class Desk:
    """Where a worker lays what it finished. Called on the event loop only; read by `run_pooled`."""

    def __init__(self) -> None:
        self.outstanding = 0
        self._ready: list[tuple[Record, Sequence[Send], Sequence[Send]]] = []
        self._news = asyncio.Event()
        self._error: BaseException | None = None

    def finish(self, record: Record, sends: Sequence[Send] = (), later: Sequence[Send] = ()) -> None:
        """`record` is done once `sends`, and then `later`, are acknowledged."""
        self._ready.append((record, sends, later))
        self._news.set()

    def fail(self, error: BaseException) -> None:
        """The lane cannot go on: raised out of `run_pooled`."""
        self._error = self._error or error
        self._news.set()

    def wake(self) -> None:
        self._news.set()

    async def news(self) -> None:
        await self._news.wait()
        self._news.clear()
        if self._error is not None:
            raise self._error

    def take(self) -> Unit:
        unit = Unit()
        for record, sends, later in self._ready:
            unit.sends.extend(sends)
            unit.later.extend(later)
            unit.done.append(record)
        self.outstanding -= len(self._ready)
        self._ready.clear()
        return unit


class Worker(Protocol):
    """Does the work of one lane, in any order. Built per lane."""

    def accept(self, records: Sequence[Record]) -> None:
        """Takes them on; each is laid on the desk when done. Must not block or raise for a bad record."""
        ...

    async def drain(self, deadline: Deadline) -> None:
        """Starts nothing more; returns when what was under way is on the desk, or at the deadline, dropping the rest
        (it is read again by the next owner)."""
        ...


async def run_pooled(lane: Lane, make: Callable[[Lane, Desk], Worker], *, width: int = 2_048, batch: int = 256) -> None:
    """`width` records at the most are taken on and not done: the memory a lane may hold."""
    desk = Desk()
    worker = make(lane, desk)
    intake = asyncio.create_task(_intake(lane, desk, worker, width, batch))
    intake.add_done_callback(lambda task: _ended(task, desk))
    try:
        while not intake.done():
            await desk.news()
            await _commit(lane, desk)
            await asyncio.sleep(lane.linger)
        await worker.drain(lane.stopping or Deadline(0.0))
        await _commit(lane, desk)
    finally:
        intake.cancel()
        await asyncio.gather(intake, return_exceptions=True)
        await worker.drain(Deadline(0.0))


def _ended(intake: "asyncio.Task[None]", desk: Desk) -> None:
    error = None if intake.cancelled() else intake.exception()
    if error is not None:
        desk.fail(error)
    desk.wake()


async def _intake(lane: Lane, desk: Desk, worker: Worker, width: int, batch: int) -> None:
    while lane.stopping is None:
        room = width - desk.outstanding
        if room <= 0:
            await asyncio.sleep(0.005)
            continue
        records = await lane.poll(min(room, batch), IDLE)
        if records and lane.stopping is None:
            desk.outstanding += len(records)
            worker.accept(records)


async def _commit(lane: Lane, desk: Desk) -> None:
    unit = desk.take()
    if not unit.empty:
        await lane.commit(unit)
