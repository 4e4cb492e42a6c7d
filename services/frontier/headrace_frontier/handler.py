"""Routes a message to the verb that handles it, then releases what may go. Pure: state, messages and time in, state and
messages out. One per lane: its caches are true only as long as every unit it staged was committed."""

import logging
from collections.abc import Sequence
from typing import assert_never

import msgspec
from msgspec import Struct

from headrace_frontier.aside import Aside
from headrace_frontier.breaker import Breaker
from headrace_frontier.budget import BUDGET, Budget
from headrace_frontier.caps import Caps
from headrace_frontier.circumstances import Circumstances, LaneWatch
from headrace_frontier.counters import COUNTERS, Counters
from headrace_frontier.counters import load as load_counters
from headrace_frontier.due import DueIndex
from headrace_frontier.hosts import Host, Hosts
from headrace_frontier.ingest import Ingest
from headrace_frontier.leases import Leases, id_key, task_of
from headrace_frontier.ledger import Ledger
from headrace_frontier.metrics import Metrics, Shown, shown
from headrace_frontier.origins import Origins
from headrace_frontier.policy import Policy
from headrace_frontier.progress import Reporter
from headrace_frontier.queues import DELAYED, READY, Queue
from headrace_frontier.release import Release
from headrace_frontier.retry import Backoff
from headrace_frontier.settle import Settle
from headrace_frontier.tuning import Tuning
from headrace_frontier.turn import Turn
from headrace_runtime.streams.poison import bury, read
from headrace_runtime.streams.seams import Record, StateView, Unit
from headrace_schemas import codec
from headrace_schemas.errors import Poison
from headrace_schemas.messages import (
    BudgetGrant,
    BudgetMessage,
    BudgetRequest,
    BudgetReturn,
    DiscoveredLinks,
    FetchResult,
)
from headrace_schemas.settings import BreakerSettings, RetrySettings, RobotsSettings
from headrace_schemas.topics import FRONTIER
from headrace_schemas.urls import Partitioner

log = logging.getLogger(__name__)
Message = DiscoveredLinks | FetchResult | BudgetMessage


class Wiring(Struct, frozen=True):
    """What all lanes of a process share."""

    circumstances: Circumstances
    partitioner: Partitioner
    retry: RetrySettings
    robots: RobotsSettings
    metrics: Metrics
    breaker: BreakerSettings = BreakerSettings()
    tuning: Tuning = Tuning()
    address: str = ""


class FrontierHandler:
    def __init__(self, partition: int, view: StateView, wiring: Wiring) -> None:
        self._partition, self._circumstances, self._metrics = partition, wiring.circumstances, wiring.metrics
        self._policy: Policy | None = None
        raw_counters, raw_budget = view.get([COUNTERS, BUDGET])
        self._written = raw_counters
        self._counters: Counters = load_counters(raw_counters)
        self._ready, self._delayed = Queue(READY, view), Queue(DELAYED, view)
        self._hosts = Hosts(wiring.tuning.hosts_cached)
        self._leases = Leases(view, self._counters.oldest_lease)
        self._due = DueIndex(view, self._counters)
        backoff = Backoff(wiring.retry)
        self._origins = Origins(wiring.robots, backoff, wiring.tuning, self._leases)
        self._budget = Budget(partition, wiring.partitioner.partitions, raw_budget)
        ledger = Ledger(partition, self._counters, self._hosts, self._ready, self._delayed, self._leases)
        caps, breaker = Caps(self._leases), Breaker(wiring.breaker)
        self._ingest = Ingest(ledger, self._origins, caps, wiring.partitioner, wiring.tuning)
        self._settle = Settle(
            ledger, self._origins, self._budget, caps, breaker, backoff, wiring.partitioner, wiring.tuning
        )
        self._aside, self._max_hops = Aside(view, wiring.tuning.unfetched), wiring.tuning.max_hops
        self._release = Release(ledger, self._origins, self._due, self._budget, caps, self._aside, wiring.tuning)
        self._reporter = Reporter(partition, wiring.address, self._counters, self._budget)
        self._watch = LaneWatch(self._counters.fetch_id, len(self._leases))
        self._again = 0
        self._shown = shown(self._counters, 0.0)
        self._circumstances.lanes[partition] = self._watch
        self._metrics.begin(partition, self._shown)

    # ---- the seam --------------------------------------------------------------------------------

    def handle(self, records: Sequence[Record], unit: Unit, now: float) -> float | None:
        turn = self._begin(unit, now)
        links: list[DiscoveredLinks] = []
        for record in records:
            message = self._read(record, turn)
            if isinstance(message, DiscoveredLinks):
                links.append(message)
            elif message is not None:
                self._one(message, record, turn)
        if back := self._aside.back(turn, self._max_hops):
            links.append(DiscoveredLinks(back))
        self._ingest.links(links, turn)  # between topics there is no order to keep
        self._release_lost(turn)
        released = self._counters.released
        control = turn.control
        going = control.mode == "running" and self._circumstances.backlog <= control.settings.max_backlog
        self._release.run(turn, going=going)
        self._send_redirects(turn)
        return self._finish(turn, going=going, released=self._counters.released > released)

    def committed(self) -> None:
        self._watch.released, self._watch.in_flight = self._counters.fetch_id, len(self._leases)
        if self._again:
            self._metrics.released_again(self._again)
            self._watch.lost = self._again = 0
        self._metrics.update(self._partition, self._shown)

    def close(self) -> None:
        """The lane is over: nothing here is ours any more."""
        if self._circumstances.lanes.get(self._partition) is self._watch:
            del self._circumstances.lanes[self._partition]
            self._metrics.end(self._partition)

    # ---- the steps of a unit ---------------------------------------------------------------------

    def _begin(self, unit: Unit, now: float) -> Turn:
        control = self._circumstances.control
        if self._policy is None or self._policy.settings != control.settings:
            self._policy = Policy(control.settings)
            self._origins.follow(control.settings.agent)
            self._aside.look()
        turn = Turn(unit, now, control, self._policy)
        self._ready.begin()
        self._delayed.begin()
        self._due.begin()
        self._origins.begin()
        self._budget.begin(turn)
        return turn

    def _read(self, record: Record, turn: Turn) -> Message | None:
        try:
            message: Message = read(record)
        except Poison as why:
            turn.unit.send(bury(record, FRONTIER, why, turn.now))
            return None
        return message

    def _one(self, message: FetchResult | BudgetMessage, record: Record, turn: Turn) -> None:
        match message:
            case FetchResult():
                self._settle.result(message, turn)
            case BudgetRequest() | BudgetGrant() | BudgetReturn():
                self._budget.handle(message, codec.revision_of(record.value), turn)
            case _:
                assert_never(message)

    def _release_lost(self, turn: Turn) -> None:
        """The fetcher has answered all that was in the topic, and we have read all its answers: what is still in
        flight will never be answered. It keeps its number, so that a late answer settles it too."""
        if not self._watch.lost:
            return
        lost = self._leases.up_to(self._watch.lost)
        if not lost:
            self._watch.lost = 0
            return
        log.warning(
            "released again: %d tasks of partition %d that nobody answered, the first is %s",
            len(lost),
            self._partition,
            lost[0].item.url,
        )
        for lease in lost:
            renewed = msgspec.structs.replace(lease, released_at=turn.now)
            self._leases.renew(turn.unit, renewed)
            turn.send("urls.to_fetch", self._partition, task_of(renewed), id_key(lease.fetch_id))
        self._again = len(lost)

    def _send_redirects(self, turn: Turn) -> None:
        for partition, links in turn.redirects.items():
            turn.send("links.discovered", partition, DiscoveredLinks(tuple(links), "redirect", turn.run))

    def _finish(self, turn: Turn, *, going: bool, released: bool) -> float | None:
        """→ when there is something to do again without any message."""
        next_due, next_host = self._next_due(turn)
        overdue = next_due is not None and next_due <= turn.now
        needy = self._counters.queued > self._counters.free
        self._budget.finish(turn, active=needy and (len(self._leases) > 0 or overdue))
        changed = self._hosts.flush(turn.unit)
        self._write_counters(turn)
        self._reporter.report(turn, changed, next_due, next_host, taken_up=not self._aside.looking)
        self._shown = self._show(next_due, turn.now)
        if self._aside.looking:
            return turn.now
        if not going or not self._release.possible() or (self._budget.dry and not released):
            return None  # a message, or the next look at the world, will bring us back
        return next_due

    def _next_due(self, turn: Turn) -> tuple[float | None, Host | None]:
        """When a host may be asked next, and which."""
        committed = self._due.next(turn.unit)
        if committed is None or (turn.soonest is not None and turn.soonest <= committed[0]):
            return turn.soonest, turn.soonest_host
        return committed[0], self._hosts.get(turn.unit, committed[1])

    def _write_counters(self, turn: Turn) -> None:
        oldest = self._leases.oldest
        self._counters.oldest_lease = self._counters.fetch_id + 1 if oldest is None else oldest
        raw = self._counters.encoded()
        if raw != self._written and (self._written is not None or raw != _UNTOUCHED):
            turn.unit.put(COUNTERS, raw)
            self._written = raw

    def _show(self, next_due: float | None, now: float) -> Shown:
        return shown(self._counters, max(0.0, now - next_due) if next_due else 0.0)


_UNTOUCHED = Counters(oldest_lease=1).encoded()
