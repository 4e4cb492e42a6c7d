"""Results → the state a URL ends in, or its way back into the queue."""

import logging
from typing import assert_never

import msgspec

from headrace_frontier.breaker import Breaker, answered, is_news
from headrace_frontier.budget import Budget
from headrace_frontier.caps import Caps
from headrace_frontier.hosts import Host
from headrace_frontier.leases import Lease
from headrace_frontier.ledger import Ledger
from headrace_frontier.origins import Origins
from headrace_frontier.queues import Item
from headrace_frontier.retry import Backoff
from headrace_frontier.seen import Entry
from headrace_frontier.tuning import Tuning
from headrace_frontier.turn import Turn
from headrace_schemas.messages import (
    Deferred,
    Failed,
    Fetched,
    FetchResult,
    Link,
    Redirected,
    Refused,
    Robots,
    State,
)
from headrace_schemas.urls import Partitioner, origin_of

log = logging.getLogger(__name__)
_TOO_MANY, _UNAVAILABLE = 429, 503


class Settle:
    def __init__(
        self,
        ledger: Ledger,
        origins: Origins,
        budget: Budget,
        caps: Caps,
        breaker: Breaker,
        backoff: Backoff,
        partitioner: Partitioner,
        tuning: Tuning,
    ) -> None:
        self._ledger, self._origins, self._budget, self._backoff = ledger, origins, budget, backoff
        self._caps, self._breaker = caps, breaker
        self._partitioner, self._tuning = partitioner, tuning

    def result(self, result: FetchResult, turn: Turn) -> None:
        lease = self._ledger.leases.end(turn.unit, result.fetch_id)
        if lease is None:
            self._ledger.counters.late += 1
            return
        host = self._ledger.hosts.get(turn.unit, lease.host)
        self._ledger.touch(turn, host)
        if lease.kind != "page":
            self._task(lease, host, result, turn)
            return
        if lease.credit and not isinstance(result.outcome, Fetched):
            self._budget.give_back()
        self._page(lease, host, result, turn)

    def _task(self, lease: Lease, host: Host, result: FetchResult, turn: Turn) -> None:
        self._ledger.counters.tasks_in_flight -= 1
        origin, outcome = origin_of(lease.item.url), result.outcome
        self._origins.answered(turn.unit, origin, outcome, turn.now, turn.run, lease.fetch_id, lease.delay)
        if isinstance(outcome, Failed):
            host.window = 1
            self._hold(host, outcome, turn)

    def _page(self, lease: Lease, host: Host, result: FetchResult, turn: Turn) -> None:
        outcome = result.outcome
        match outcome:
            case Fetched():
                self._answered(lease, host, result, turn)
                self._fetched(lease, host, outcome, turn)
            case Redirected():
                self._answered(lease, host, result, turn)
                self._redirected(lease, host, outcome, turn)
            case Failed():
                if outcome.is_fault or outcome.is_refusal:
                    self._fault(lease, host, outcome, turn)
                elif outcome.status:
                    self._answered(lease, host, result, turn)
                self._caps.failed(host, outcome, turn.control.settings)
                self._failed(lease, host, outcome, turn)
            case Refused():
                self._ledger.settle(turn, lease.item, State.IN_FLIGHT, State.REFUSED, outcome.reason)
            case Deferred():
                self._deferred(lease, host, outcome, turn)
            case Robots():  # no answer to a page
                self._failed(lease, host, Failed("protocol"), turn)
            case _:
                assert_never(outcome)

    def _answered(self, lease: Lease, host: Host, result: FetchResult, turn: Turn) -> None:
        distrusted = host.trial > 0
        answered(host, lease.released_at)
        self._ledger.counters.breakers_open += (host.trial > 0) - distrusted
        turnaround = turn.now - lease.released_at - result.waited
        latency = result.latency_ms / 1000
        host.measured(turnaround, latency, lease.delay, lease.connections, self._tuning.host_window)

    def _fault(self, lease: Lease, host: Host, failed: Failed, turn: Turn) -> None:
        host.window = 1
        if is_news(failed, lease.item.attempt):
            self._judge(lease, host, failed, turn)
        self._hold(host, failed, turn)

    def _judge(self, lease: Lease, host: Host, failed: Failed, turn: Turn) -> None:
        distrusted, cooldown, given_up = host.trial > 0, host.cooldown_until, host.given_up
        self._breaker.failed(host, failed, lease.released_at, turn.now, turn.run, lease.fetch_id)
        counters = self._ledger.counters
        counters.breakers_open += (host.trial > 0) - distrusted
        counters.hosts_given_up += host.given_up != given_up
        counters.breakers_opened += host.cooldown_until != cooldown or host.given_up != given_up

    def _hold(self, host: Host, failed: Failed, turn: Turn) -> None:
        """429 and 503 with Retry-After speak for the host (RFC 6585 section 4, RFC 9110 section 10.2.3)."""
        if failed.status in (_TOO_MANY, _UNAVAILABLE):
            host.not_before = max(host.not_before, turn.now + self._backoff.honoured(failed.retry_after))

    def _fetched(self, lease: Lease, host: Host, fetched: Fetched, turn: Turn) -> None:
        if lease.credit:
            self._budget.spend()
            self._caps.fetched(turn.unit, host, lease, fetched)
        self._ledger.counters.body_bytes += fetched.size
        self._ledger.settle(turn, msgspec.structs.replace(lease.item, counted=True), State.IN_FLIGHT, State.FETCHED)

    def _redirected(self, lease: Lease, host: Host, redirected: Redirected, turn: Turn) -> None:
        item = lease.item
        if item.hop + 1 > self._tuning.max_hops:
            self._nowhere(item, redirected, "too_many_redirects", turn)
            return
        try:
            target = self._partitioner.politeness_key(redirected.to)
            partition = self._partitioner.partition(redirected.to)
        except ValueError:
            self._nowhere(item, redirected, "bad_redirect", turn)
            return
        chain = (*item.chain, item.url)
        if redirected.key == item.key and target == host.name:  # a slash, a parameter order: another spelling
            respelt = msgspec.structs.replace(item, url=redirected.to, hop=item.hop + 1, chain=chain, attempt=0)
            self._again(respelt, host, turn, first=True)
            return
        link = Link(redirected.to, redirected.key, item.depth, item.referrer, item.hop + 1, chain)
        turn.redirects.setdefault(partition, []).append(link)
        self._ledger.settle(turn, item, State.IN_FLIGHT, State.REDIRECTED)

    def _nowhere(self, item: Item, redirected: Redirected, reason: str, turn: Turn) -> None:
        """The index took the answer for a redirect like any other: only here is it known that it leads no further."""
        item = msgspec.structs.replace(item, attempt=item.attempt + 1)
        self._ledger.settle(turn, item, State.IN_FLIGHT, State.FAILED, reason)
        self._ledger.announce(turn, item, State.FAILED, reason, status=redirected.status)

    def _failed(self, lease: Lease, host: Host, failed: Failed, turn: Turn) -> None:
        attempt = lease.item.attempt + 1
        item = msgspec.structs.replace(lease.item, attempt=attempt)
        if failed.retriable and self._backoff.again(attempt):
            wait = self._backoff.wait(attempt, lease.fetch_id, failed.retry_after)
            self._again(item, host, turn, at=turn.now + wait)
        else:
            self._ledger.settle(turn, item, State.IN_FLIGHT, State.FAILED, failed.reason)

    def _deferred(self, lease: Lease, host: Host, deferred: Deferred, turn: Turn) -> None:
        """Not its fault: no attempt is spent."""
        not_before = self._backoff.until(deferred.not_before, turn.now)
        if deferred.reason == "wait":
            host.window = 1
            host.not_before = max(host.not_before, not_before)
        self._again(lease.item, host, turn, at=max(not_before, turn.now + self._tuning.deferred_wait))

    def _again(self, item: Item, host: Host, turn: Turn, *, at: float | None = None, first: bool = False) -> None:
        self._ledger.enqueue(turn, host, Entry(State.IN_FLIGHT, counted=item.counted), item, at=at, first=first)
