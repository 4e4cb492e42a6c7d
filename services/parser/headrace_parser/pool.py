"""The worker processes of one service: which worker gets which frame, and what a dead one means for its pages.

The page a worker was on when it died is the suspect. Out of time or out of memory, it is guilty; after any other death
it is tried once more, alone, since an operator or the system may have killed the worker for reasons of their own. The
other pages go back to the head of their line. So a bad page costs itself and never a neighbour.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from headrace_parser.feed import Feed, Page, Tag
from headrace_parser.frames import OUT_OF_MEMORY, PAGES, Board, Frame, Hello, ParsedReply, Reply
from headrace_parser.metrics import ParserMetrics
from headrace_parser.page import Parsed
from headrace_parser.process import StartFailed, WorkerProcess
from headrace_runtime.clock import Clock
from headrace_schemas import codec
from headrace_schemas.errors import FatalError, Poison
from headrace_schemas.messages import FetchedPage

DEPTH = 2  # frames a worker holds: one in hand and one at its elbow, so that it never waits for our event loop
ATTEMPTS = 5  # workers in a row that may come to nothing before the pool gives up
BACKOFF = 0.1  # seconds before the second of them; doubles
TICK = 0.25  # seconds between two looks at what the workers are on

log = logging.getLogger(__name__)


class _Batch(NamedTuple):
    """One frame under way."""

    feed: Feed[Any]
    pages: list[Page[Any]]


class ParserPool:
    """Used on one event loop, whose thread must outlive it."""

    def __init__(
        self,
        hello: Hello,
        *,
        workers: int,
        deadline: float,
        clock: Clock,
        metrics: ParserMetrics,
        revision: Callable[[], int] = lambda: 0,
    ) -> None:
        """`deadline`: seconds one page may take. `revision`: of `crawl.control`, as known now."""
        self._hello, self._size, self._deadline = hello, workers, deadline
        self._clock, self._metrics, self._revision = clock, metrics, revision
        self._workers: dict[WorkerProcess, dict[int, _Batch]] = {}
        self._open: set[Feed[Any]] = set()
        self._line: deque[Feed[Any]] = deque()  # those with pages waiting, in turn: a long one starves nobody
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()
        self._number = 0
        self._error: BaseException | None = None
        self._submitted: Feed[asyncio.Future[ParsedReply]] | None = None
        self._futures: set[asyncio.Future[ParsedReply]] = set()
        metrics.watch(lambda: self.pids)

    # ---- for its customers

    async def start(self) -> None:
        """Returns when all workers are ready; `FatalError` if they cannot be had."""
        for work in (*[self._keep_one] * self._size, self._watch):
            task = asyncio.create_task(work())
            task.add_done_callback(self._task_ended)
            self._tasks.append(task)
        while len(self._workers) < self._size and self._error is None:
            self._changed.clear()
            await self._changed.wait()
        if self._error is not None:
            await self.close()
            raise self._error

    async def close(self) -> None:
        """Whatever is under way is lost; its customers have drained, or will read it again."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for worker in self._workers:
            worker.kill()
        for worker in self._workers:
            await worker.ended()
        self._workers.clear()
        self._metrics.workers.set(0)

    def open(
        self,
        deliver: Callable[[Sequence[tuple[Tag, ParsedReply]]], None],
        fail: Callable[[BaseException], None],
        *,
        merge: bool,
    ) -> Feed[Tag]:
        """`merge`: the links of a frame come together, on its first page."""
        if self._error is not None:
            raise self._error
        feed = Feed(deliver, fail, merge=merge)
        self._open.add(feed)
        return feed

    def put(self, feed: Feed[Tag], pages: Sequence[Page[Tag]]) -> None:
        feed.put(pages)
        self._queue(feed)
        self._dispatch()

    def drop(self, feed: Feed[Any]) -> None:
        feed.close()
        self._open.discard(feed)

    def submit(self, value: bytes) -> "asyncio.Future[ParsedReply]":
        """One record of `pages.fetched`, for whoever has no lane (a replay). Bounding how many is the caller's part.
        Raises `TooNew`."""
        try:
            codec.revision_of(value)
        except Poison:
            pass  # the worker says so in its reply
        if self._submitted is None:
            self._submitted = self.open(_resolve, self._fail_submitted, merge=False)
        reply: asyncio.Future[ParsedReply] = asyncio.get_running_loop().create_future()
        self._futures.add(reply)
        reply.add_done_callback(self._futures.discard)
        self.put(self._submitted, [Page(reply, value)])
        return reply

    @property
    def busy(self) -> int:
        """Pages waiting or under way."""
        return sum(feed.waiting for feed in self._open) + self._under_way

    @property
    def pids(self) -> list[int]:
        """Of the workers that are ready."""
        return [worker.pid for worker in self._workers]

    # ---- frames out, replies in

    @property
    def _under_way(self) -> int:
        return sum(len(batch.pages) for batches in self._workers.values() for batch in batches.values())

    def _queue(self, feed: Feed[Any]) -> None:
        if feed.waiting and feed not in self._line:
            self._line.append(feed)

    def _dispatch(self) -> None:
        while self._line and (worker := self._freest()) is not None:
            feed = self._line.popleft()
            if feed.waiting:
                self._send(worker, feed)
                self._queue(feed)

    def _freest(self) -> WorkerProcess | None:
        free = [worker for worker, batches in self._workers.items() if len(batches) < DEPTH and worker.alive]
        return min(free, key=lambda worker: len(self._workers[worker]), default=None)

    def _send(self, worker: WorkerProcess, feed: Feed[Any]) -> None:
        share = -(-feed.waiting // len(self._workers))  # few pages are spread out, many go by the frame
        pages = feed.take(min(PAGES, share))
        self._number += 1
        self._workers[worker][self._number] = _Batch(feed, pages)
        values = [page.value for page in pages]
        worker.send(Frame(self._number, self._revision(), self._clock.now(), feed.merge, values))

    def _replied(self, worker: WorkerProcess, reply: Reply) -> None:
        batch = self._workers[worker].pop(reply.number)
        self._deliver(batch.feed, list(zip((page.tag for page in batch.pages), reply.pages, strict=True)))
        self._dispatch()

    def _deliver(self, feed: Feed[Any], replies: Sequence[tuple[Any, ParsedReply]]) -> None:
        for _, reply in replies:
            self._metrics.page(reply)
        feed.deliver(replies)

    # ---- workers that come and go

    async def _keep_one(self) -> None:
        """One worker, and another in its place, until closed."""
        barren = 0
        while True:
            worker = WorkerProcess(self._replied)
            try:
                await worker.start(self._hello)
            except StartFailed as error:
                barren, why = barren + 1, str(error)
            else:
                code = await self._serve(worker)
                barren = 0 if worker.position.frame else barren + 1
                why = f"a worker ended with code {code} before its first page"
            if barren >= ATTEMPTS:
                raise FatalError(f"no parser process can be had, {ATTEMPTS} tries in a row: {why}")
            self._metrics.restarts.inc()
            if barren:
                await asyncio.sleep(BACKOFF * 2 ** (barren - 1))

    async def _serve(self, worker: WorkerProcess) -> int:
        self._workers[worker] = {}
        self._metrics.workers.set(len(self._workers))
        self._changed.set()
        self._dispatch()
        code = await worker.ended()
        lost = self._workers.pop(worker)
        self._metrics.workers.set(len(self._workers))
        self._recover(worker, lost, code)
        return code

    async def _watch(self) -> None:
        period = min(TICK, self._deadline / 4)
        while True:
            await asyncio.sleep(period)
            for worker, batches in self._workers.items():
                if not batches:
                    worker.rest()
                elif worker.alive:
                    worker.tick(period, self._deadline)

    def _recover(self, worker: WorkerProcess, lost: dict[int, _Batch], code: int) -> None:
        verdict = "timeout" if worker.timed_out else "memory" if code == OUT_OF_MEMORY else "crashed"
        left = code == 0 and not worker.timed_out  # of its own accord, between two frames
        frame, index = worker.position
        for number, batch in reversed(lost.items()):  # each goes to the head of its line: the last one first
            if number == frame and index != Board.BETWEEN:
                suspects = [batch.pages[index]]
            else:
                suspects = batch.pages if number == min(lost) and not left else []
            proved = number == frame and verdict != "crashed"
            guilty = [page for page in suspects if len(suspects) == 1 and (proved or page.deaths)]
            for page in suspects:
                page.deaths += 1
                page.alone = True
            batch.feed.put_back([page for page in batch.pages if page not in guilty])
            if guilty:
                self._deliver(batch.feed, [(page.tag, self._sentence(page, verdict, code)) for page in guilty])
            self._queue(batch.feed)
        self._dispatch()

    def _sentence(self, page: Page[Any], verdict: str, code: int) -> ParsedReply:
        """What the worker can no longer say itself."""
        why = {
            "timeout": f"still being parsed after {self._deadline:g} s",
            "memory": f"parsing it takes more than {self._hello.memory} MiB",
            "crashed": f"parsing it ended two workers (code {code})",
        }[verdict]
        try:
            message = codec.decode("pages.fetched", page.value)
        except Poison as error:
            return ParsedReply("poison", why=str(error))
        if not isinstance(message, FetchedPage):
            return ParsedReply("poison", why=why)
        log.warning("page dead-lettered: %s", why, extra={"url": message.url})
        revision = max(self._revision(), codec.revision_of(page.value))
        return ParsedReply(
            verdict, codec.encode(Parsed(verdict).message(message, self._clock.now()), revision), why=why
        )

    def _task_ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None and self._error is None:
            self._error = error
            self._changed.set()
            for feed in self._open:
                feed.fail(error)

    def _fail_submitted(self, error: BaseException) -> None:
        for future in self._futures:
            if not future.done():
                future.set_exception(error)


def _resolve(replies: Sequence[tuple["asyncio.Future[ParsedReply]", ParsedReply]]) -> None:
    for future, reply in replies:
        if not future.done():
            future.set_result(reply)
