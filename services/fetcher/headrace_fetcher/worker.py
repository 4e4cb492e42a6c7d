"""One lane's part in the shared fetcher: reads its tasks, answers on its desk."""

import math
import re
from collections.abc import Sequence

from headrace_fetcher.dispatch import Dispatcher
from headrace_fetcher.errand import Errand
from headrace_fetcher.replies import Replies, Reply
from headrace_fetcher.trip import Answer
from headrace_runtime.clock import Clock, Deadline
from headrace_runtime.streams.loops import Desk
from headrace_runtime.streams.poison import read
from headrace_runtime.streams.seams import Lane, Record
from headrace_schemas.errors import FatalError, Poison
from headrace_schemas.messages import Deferred, FetchTask

# Visible ASCII only: a line break here would be a second request of someone else's making.
_AS_FOUND = re.compile(r"https?://[!-.0-~]+/[!-~]*")


class LaneWorker:
    """Implements `loops.Worker` for `run_pooled` and `dispatch.Customer` for the dispatcher."""

    def __init__(
        self, lane: Lane, desk: Desk, dispatcher: Dispatcher, replies: Replies, clock: Clock, patience: float
    ) -> None:
        """`patience`: seconds a task may wait here for its host's turn; one that would wait longer is deferred."""
        self._lane, self._desk, self._dispatcher, self._replies = lane, desk, dispatcher, replies
        self._clock, self._patience = clock, patience
        self._left = False
        dispatcher.join(self)

    # ---- Worker ----

    def accept(self, records: Sequence[Record]) -> None:
        for record in records:
            try:
                task = _sound(read(record))
            except Poison as why:
                self._finish(record, self._replies.poison(record, why, self._clock.now()))
            except FatalError as error:  # a newer release wrote it: not for this process to bury
                self._desk.fail(error)
                return
            else:
                self._take_on(Errand(self, record, task))

    async def drain(self, deadline: Deadline) -> None:
        self._left = True
        await self._dispatcher.leave(self, deadline)

    # ---- Customer ----

    def may_start(self) -> bool:
        return not self._left and self._lane.stopping is None and self._lane.owned()

    def answered(self, errand: Errand, answer: Answer, waited: float, latency: float) -> None:
        reply = self._replies.answer(
            errand.record, errand.task, answer, now=self._clock.now(), waited=waited, latency=latency
        )
        self._finish(errand.record, reply)

    # ---- own ----

    def _take_on(self, errand: Errand) -> None:
        task, now = errand.task, self._clock.now()
        if now > task.valid_until:
            self.answered(errand, Answer(Deferred(now, "stale")), 0.0, 0.0)
            return
        wait = self._dispatcher.wait_for(self, task)
        if wait > self._patience:
            self.answered(errand, Answer(Deferred(now + wait, "wait")), 0.0, 0.0)
            return
        self._dispatcher.submit(errand)

    def _finish(self, record: Record, reply: Reply) -> None:
        self._desk.finish(record, reply.sends, reply.later)


def _sound(task: FetchTask) -> FetchTask:
    """A task that decodes may still make no sense; a NaN among the due times would upset the whole schedule."""
    if not (math.isfinite(task.delay) and 0.0 <= task.delay <= 86_400.0) or math.isnan(task.valid_until):
        raise Poison(f"a task with delay {task.delay} and valid until {task.valid_until}")
    if task.connections < 1:
        raise Poison(f"a task for {task.connections} connections")
    if not task.host or not _AS_FOUND.fullmatch(task.url):
        raise Poison(f"a task for {task.url[:100]!r} at host {task.host[:100]!r}")
    return task
