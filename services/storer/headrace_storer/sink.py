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
from headrace_storer.database import Denied
from headrace_storer.handler import Job
from headrace_storer.metrics import Metrics

T = TypeVar("T")
log = logging.getLogger(__name__)

_LAST = 1.0  # seconds a batch under way has at a close: far more than one takes while the index answers


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
    silence: float = 30.0
    """Seconds without an answer after which the connections are cut and the same is tried anew; doubles, since the
    next answer may be as slow."""


class _Waiting(NamedTuple):
    record: Record
    worker: "LaneWorker"


class _Silent(Unavailable):
    """Neither done nor refused for so long that its connection was cut."""


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
        idle, trouble = asyncio.ensure_future(self._idle.wait()), asyncio.ensure_future(self._sink.in_trouble.wait())
        try:  # while storing stands still there is nothing to wait for
            await asyncio.wait((idle, trouble), timeout=deadline.left, return_when=asyncio.FIRST_COMPLETED)
        finally:
            idle.cancel()
            trouble.cancel()
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
        self.trouble = ""
        """Why storing stands still; empty: it does not."""
        self.in_trouble = asyncio.Event()
        self._trouble_since = 0.0
        self._denied = False
        metrics.watch(trouble=self._trouble_seconds)

    async def start(self) -> None:
        """A configuration that can never work is an error now; an index that does not answer is waited for."""
        try:
            await self._answered(self._pace.silence, self._archive.open)
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
        ended = asyncio.ensure_future(asyncio.to_thread(self._thread.shutdown, wait=True))
        try:
            await asyncio.wait((ended,), timeout=0.0 if self.trouble else _LAST)
        finally:
            self._archive.cut()
        await ended
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
            "trouble": self.trouble,
            "trouble_seconds": round(self._trouble_seconds(), 1),
        }

    def _trouble_seconds(self) -> float:
        return self._clock.monotonic() - self._trouble_since if self.trouble else 0.0

    async def _run(self) -> None:
        await self._patiently(self._archive.open)
        while True:
            self._current = await self._gather()
            batch = Batch([entry.record for entry in self._current])
            started = self._clock.monotonic()
            reads = await self._patiently(self._archive.keep, batch)
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

    async def _patiently(self, call: Callable[..., T], *arguments: Any) -> T:
        """Tried until it can be done."""
        pause, silence = self._pace.first_pause, self._pace.silence
        while True:
            try:
                done = await self._answered(silence, call, *arguments)
            except Unavailable as error:
                if isinstance(error, _Silent):
                    silence *= 2
                self._in_trouble(error)
                self._metrics.retries.inc()
                await asyncio.sleep(pause)
                pause = min(2 * pause, self._pace.longest_pause)
                continue
            self._out_of_trouble()
            return done

    async def _answered(self, silence: float, call: Callable[..., T], *arguments: Any) -> T:
        work = asyncio.ensure_future(self._in_thread(call, *arguments))
        try:
            done, _ = await asyncio.wait((work,), timeout=silence)
            if done:
                return work.result()
            self._archive.cut()
            try:
                return await work
            except Unavailable as error:
                raise _Silent(f"the index gave no answer for {silence:.0f} s") from error
        finally:
            work.cancel()

    def _in_trouble(self, error: Unavailable) -> None:
        """Said once, and once more if it turns out that only an operator can mend it: a password that was changed is
        noticed when a connection has broken, for which alone the first line would stand."""
        if not self.trouble:
            self._trouble_since, self._denied = self._clock.monotonic(), False
        if isinstance(error, Denied) and not self._denied:
            self._denied = True
            what = "the password" if "password" in str(error) else "who we are"
            log.error("the index refuses %s (index.url), storing waits for it; nothing is lost: %s", what, error)
        elif not self.trouble:
            log.error("storing stands still until this passes; nothing is lost: %s", error)
        self.trouble = str(error)
        self.in_trouble.set()

    def _out_of_trouble(self) -> None:
        if self.trouble:
            log.warning("storing again after %.1f s", self._clock.monotonic() - self._trouble_since)
            self.trouble = ""
            self.in_trouble.clear()

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
