"""What the partition tells the world, in the very commit that makes it true."""

from collections.abc import Iterable
from heapq import nlargest

import msgspec

from headrace_frontier.budget import Budget
from headrace_frontier.counters import Counters
from headrace_frontier.hosts import Host
from headrace_frontier.turn import Turn
from headrace_schemas.messages import Progress, State
from headrace_schemas.topics import partition_key

_SHOWN, _KEPT = 5, 64


class Busiest:
    """The longest queues among the hosts met lately: kept by looking at what changed, not by searching."""

    def __init__(self) -> None:
        self._queued: dict[str, int] = {}

    def update(self, hosts: Iterable[Host]) -> None:
        for host in hosts:
            if host.queued:
                self._queued[host.name] = host.queued
            else:
                self._queued.pop(host.name, None)
        if len(self._queued) > 2 * _KEPT:
            self._queued = dict(nlargest(_KEPT, self._queued.items(), key=lambda pair: pair[1]))

    def top(self) -> tuple[tuple[str, int], ...]:
        return tuple(nlargest(_SHOWN, self._queued.items(), key=lambda pair: pair[1]))


class Reporter:
    def __init__(self, partition: int, owner: str, counters: Counters, budget: Budget) -> None:
        self._partition, self._owner, self._counters, self._budget = partition, owner, counters, budget
        self._busiest = Busiest()
        self._said: Progress | None = None
        self._revision = 0

    def report(
        self, turn: Turn, changed: Iterable[Host], next_due: float | None, next_host: Host | None, *, taken_up: bool
    ) -> None:
        """Sends what is new. A new owner says everything once: that is how it is found. `taken_up`: all that follows
        from the latest settings has been done, and completion may go by them."""
        self._revision = turn.revision if taken_up else self._revision
        self._busiest.update(changed)
        progress = self._progress(turn)
        if progress == self._said:
            return
        self._said = progress
        said = msgspec.structs.replace(
            progress,
            next_due=next_due or 0.0,
            busiest=self._busiest.top(),
            next_host=next_host.name if next_host else "",
            next_why=next_host.why if next_host else "",
        )
        turn.send("crawl.progress", self._partition, said, partition_key(self._partition))

    def _progress(self, turn: Turn) -> Progress:
        c = self._counters
        return Progress(
            self._partition,
            queued=c.queued,
            in_flight=c.states[State.IN_FLIGHT],
            fetched=c.states[State.FETCHED],
            redirected=c.states[State.REDIRECTED],
            failed=c.states[State.FAILED],
            refused=c.states[State.REFUSED],
            tasks_in_flight=c.tasks_in_flight,
            behind_budget=c.queued - c.free if self._budget.spent else 0,
            budget_held=self._budget.outstanding,
            rejected=dict(c.rejected),
            refused_by=dict(c.refused_by),
            failed_by=dict(c.failed_by),
            owner=self._owner,
            revision=self._revision,
            bytes=c.body_bytes,
            needing=c.queued - c.free,
            pool_spent=self._budget.pool_spent,
        )
