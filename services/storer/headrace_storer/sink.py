"""One per process: what all lanes have waiting goes to disk in one batch, in one thread. A failing disk or index makes
it wait and try again with the same batch; nothing is dropped and nothing passes meanwhile."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar, assert_never

from msgspec import Struct

from headrace_runtime.clock import Clock, Deadline
from headrace_runtime.streams.loops import Desk
from headrace_runtime.streams.poison import bury
from headrace_runtime.streams.seams import Record
from headrace_schemas.errors import FatalError, Poison, Unavailable
from headrace_schemas.topics import STORER
from headrace_storer.archive import Archive, Batch, Read
from headrace_storer.handler import Job
from headrace_storer.metrics import Metrics

T = TypeVar("T")
log = logging.getLogger(__name__)


class Pace(Struct, frozen=True, kw_only=True):
    """How much one batch may hold and how long the sink waits. Sizes by measurement: see the README."""

    bodies: int = 200
    records: int = 500
    bytes: int = 64 * 1024 * 1024
    gather: float = 0.005
    """Seconds a batch that is not full waits for more."""
    first_pause: float = 0.1
    """Seconds before the second try after a failure; doubles."""
    longest_pause: float = 5.0


class _Waiting(NamedTuple):
    record: Record
    worker: "LaneWorker"


class LaneWorker:
    """One lane's side of the sink (`loops.Worker`). Lives on the event loop."""

    def __init__(self, sink: "Sink", desk: Desk) -> None:
        self._sink, self._desk = sink, desk
        self._under_way = 0
        self._closed = False
        self._idle = asyncio.Event()
        self._idle.set()

    def accept(self, records: Sequence[Record]) -> None:
        self._under_way += len(records)
        self._idle.clear()
        self._sink.put(self, records)

    async def drain(self, deadline: Deadline) -> None:
        try:
            await asyncio.wait_for(self._idle.wait(), deadline.left)
        except TimeoutError:
            pass
        self._closed = True
        self._sink.forget(self)

    def settle(self, record: Record, read: Read, now: float) -> None:
        """Called by the sink, once a record is on the disk or can never be."""
        self._under_way -= 1
        if self._under_way == 0:
            self._idle.set()
        if self._closed:
            return
        match read:
            case Job():
                self._desk.finish(record)
            case Poison():
                log.warning("%s/%d@%d: %s: dead letter", record.topic, record.partition, record.offset, read)
                self._desk.finish(record, [bury(record, STORER, read, now)])
            case FatalError():
                self._desk.fail(read)
            case _:
                assert_never(read)

    def fail(self, error: BaseException) -> None:
        self._under_way = 0
        self._idle.set()
        if not self._closed:
            self._desk.fail(error)


class Sink:
    def __init__(self, archive: Archive, metrics: Metrics, clock: Clock, pace: Pace | None = None) -> None:
        self._archive, self._metrics, self._clock = archive, metrics, clock
        self._pace = pace or Pace()
        self._waiting: deque[_Waiting] = deque()
        self._current: list[_Waiting] = []
        self._news = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="storer")
        self._task: asyncio.Task[None] | None = None
        self._error: BaseException | None = None
        self._trouble = ""
        self._trouble_since = 0.0
        metrics.watch(trouble=self._trouble_seconds)

    async def start(self) -> None:
        """A configuration that can never work is an error now; an index that does not answer is waited for."""
        try:
            await self._in_thread(self._archive.open)
        except Unavailable as error:
            self._in_trouble(error)
        self._task = asyncio.create_task(self._run(), name="storer sink")
        self._task.add_done_callback(self._ended)

    async def close(self) -> None:
        """What is not on the disk yet is delivered again to whoever reads on."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        # A batch in the thread is let finish, off the loop: the files it writes must not be cut short by an exit.
        await asyncio.to_thread(self._thread.shutdown, wait=True)
        self._archive.close()

    def put(self, worker: LaneWorker, records: Sequence[Record]) -> None:
        if self._error is not None:
            worker.fail(self._error)
            return
        self._waiting.extend(_Waiting(record, worker) for record in records)
        self._news.set()

    def forget(self, worker: LaneWorker) -> None:
        """A lane that is gone: what it has waiting is read again by the next owner."""
        if any(entry.worker is worker for entry in self._waiting):
            self._waiting = deque(entry for entry in self._waiting if entry.worker is not worker)

    @property
    def busy(self) -> int:
        return len(self._waiting) + len(self._current)

    def status(self) -> dict[str, Any]:
        return {
            "waiting": self.busy,
            "trouble": self._trouble,
            "trouble_seconds": round(self._trouble_seconds(), 1),
        }

    def _trouble_seconds(self) -> float:
        return self._clock.monotonic() - self._trouble_since if self._trouble else 0.0

    async def _run(self) -> None:
        while True:
            self._current = await self._gather()
            batch = Batch([entry.record for entry in self._current])
            started = self._clock.monotonic()
            reads = await self._keep(batch)
            self._metrics.kept(reads, batch.written, self._clock.monotonic() - started)
            now = self._clock.now()
            for entry, read in zip(self._current, reads, strict=True):
                entry.worker.settle(entry.record, read, now)
            self._current = []

    async def _gather(self) -> list[_Waiting]:
        while not self._waiting:
            self._news.clear()
            await self._news.wait()
        if len(self._waiting) < self._pace.bodies:
            await asyncio.sleep(self._pace.gather)
        taken: list[_Waiting] = []
        bodies = size = 0
        while self._waiting and bodies < self._pace.bodies and len(taken) < self._pace.records:
            size += len(self._waiting[0].record.value)
            if taken and size > self._pace.bytes:
                break
            entry = self._waiting.popleft()
            bodies += entry.record.topic == "pages.fetched"
            taken.append(entry)
        return taken

    async def _keep(self, batch: Batch) -> list[Read]:
        pause = self._pace.first_pause
        while True:
            try:
                reads = await self._in_thread(self._archive.keep, batch)
            except Unavailable as error:
                self._in_trouble(error)
                self._metrics.retries.inc()
                await asyncio.sleep(pause)
                pause = min(2 * pause, self._pace.longest_pause)
                continue
            self._out_of_trouble()
            return reads

    def _in_trouble(self, error: Unavailable) -> None:
        if not self._trouble:
            self._trouble_since = self._clock.monotonic()
            log.error("storing stands still until this passes; nothing is lost: %s", error)
        self._trouble = str(error)

    def _out_of_trouble(self) -> None:
        if self._trouble:
            log.info("storing again after %.1f s", self._clock.monotonic() - self._trouble_since)
            self._trouble = ""

    async def _in_thread(self, call: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        self._error = error
        for worker in {entry.worker for entry in (*self._current, *self._waiting)}:
            worker.fail(error)
        self._waiting.clear()
        self._current = []
