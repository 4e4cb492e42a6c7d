"""Queued URLs → tasks: round-robin over the hosts that are due, best first within a host, never past a window.

Nothing of an origin goes out before its robots.txt is known; that is a task like any other, and the first.
"""

from collections.abc import Iterator
from enum import Enum, auto
from typing import assert_never

import msgspec
import xxhash

from headrace_frontier import breaker
from headrace_frontier.aside import Aside
from headrace_frontier.budget import Budget
from headrace_frontier.caps import Caps, Room
from headrace_frontier.due import DueIndex
from headrace_frontier.hosts import Host
from headrace_frontier.leases import Lease
from headrace_frontier.ledger import Ledger
from headrace_frontier.origins import OriginRecord, Origins, Standing
from headrace_frontier.queues import Item, due_of
from headrace_frontier.tuning import DAY, Tuning
from headrace_frontier.turn import Turn
from headrace_schemas.messages import State
from headrace_schemas.urls import origin_of

_ROBOTS_TASK_VALID = 30 * DAY


class Fate(Enum):
    """What became of one queued URL in a visit."""

    TAKEN = auto()
    """Released, or settled without a request."""
    BLOCKED = auto()
    """Its origin's robots.txt is not known yet: the next one may go."""
    STOP = auto()
    """Neither this nor any after it can go now."""


class Visit:
    """One look at one host: how much may go, and when to look again."""

    def __init__(self, room: int) -> None:
        self.room = room
        """Tasks that may still be released to it."""
        self.blocked = 0
        self.wake: float | None = None
        """When to come back; None: a result will bring us back, or nothing is left."""
        self.why = ""
        """What it waits for until then."""

    def again(self, at: float, why: str = "") -> None:
        if self.wake is None or at < self.wake:
            self.wake, self.why = at, why


class Release:
    def __init__(
        self,
        ledger: Ledger,
        origins: Origins,
        due: DueIndex,
        budget: Budget,
        caps: Caps,
        aside: Aside,
        tuning: Tuning,
    ) -> None:
        self._ledger, self._origins, self._due, self._budget, self._tuning = ledger, origins, due, budget, tuning
        self._caps, self._aside = caps, aside

    def run(self, turn: Turn, *, going: bool) -> None:
        """`going`: the crawl is running and what comes after is keeping up."""
        self._origins.begin()
        if going and self.possible():
            for visits, host in enumerate(self._hosts(turn)):
                if visits >= self._tuning.visits or not self._possible(turn):
                    break
                visit = self._visit(turn, host)
                self._schedule(turn, host, visit.wake, visit.why)
        for host in list(turn.touched.values()):
            waiting = host.queued and (self._room(turn, host) > 0 or host.given_up == turn.run)
            self._keep(turn, host, max(turn.now, host.held_until) if waiting else None)

    def possible(self) -> bool:
        """Whether a visit could release anything at all."""
        if len(self._ledger.leases) >= self._tuning.partition_window:
            return False
        return not self._budget.dry or self._ledger.counters.free > 0

    def _possible(self, turn: Turn) -> bool:
        return turn.unfetched < self._tuning.unfetched and self._origins.patient and self.possible()

    def _hosts(self, turn: Turn) -> Iterator[Host]:
        """Those longest due first, then those that this unit has touched."""
        for name in self._due.due(turn.unit, turn.now, lambda names: self._read_ahead(turn, names)):
            yield self._ledger.hosts.get(turn.unit, name)
        yield from list(turn.touched.values())

    def _read_ahead(self, turn: Turn, names: list[str]) -> None:
        """One read of many is a fraction of many reads of one, once there are more hosts than are cached."""
        hosts = self._ledger.hosts.fetch(turn.unit, names)
        self._origins.fetch(turn.unit, {host.origin for host in hosts if host.origin})

    def _keep(self, turn: Turn, host: Host, at: float | None) -> None:
        """Schedules a host that was not visited; one that waits already keeps its turn."""
        if at is None or not host.due or host.due > at * 1000:
            self._schedule(turn, host, at, _held(host) if at is not None and at > turn.now else "")

    def _schedule(self, turn: Turn, host: Host, at: float | None, why: str) -> None:
        turn.touched.pop(host.name, None)
        before = host.due
        self._due.schedule(turn.unit, host, at)
        if host.due != before:
            host.why = why
            self._ledger.hosts.change(host)
        if at is not None:
            turn.wake(at, host)

    def _room(self, turn: Turn, host: Host) -> int:
        at_once = 1 if breaker.in_doubt(host) else turn.policy.polite(host.name)[1]
        window = 1 if host.trial else max(host.window, at_once)
        return window - self._ledger.leases.of_host(host.name)

    # ---- one host --------------------------------------------------------------------------------

    def _visit(self, turn: Turn, host: Host) -> Visit:
        visit = Visit(self._room(turn, host))
        if host.given_up != turn.run and host.held_until > turn.now:
            if host.queued:
                visit.again(host.held_until, _held(host))
            return visit
        if visit.room <= 0 and host.given_up != turn.run:
            return visit
        # Retries first, as they are older; but a host in doubt is judged by what it was not asked for yet.
        walks = [self._walk_delayed, self._walk_ready]
        for walk in reversed(walks) if breaker.in_doubt(host) else walks:
            if not walk(turn, host, visit):
                break
        return visit

    def _walk_delayed(self, turn: Turn, host: Host, visit: Visit) -> bool:
        """→ whether others may be looked at too."""
        line, queue = host.delayed, self._ledger.delayed
        if not line.count:
            return True
        kept: bytes | None = None
        stopped = False
        for place, item in queue.walk(turn.unit, host.id, line):
            due = due_of(place)
            if due > turn.now and host.given_up != turn.run:
                visit.again(due, "retry")
                kept = kept or place
                break
            fate = self._one(turn, host, visit, place, item)
            if fate is Fate.TAKEN:
                continue
            kept = kept or place
            stopped = fate is Fate.STOP or visit.blocked >= self._tuning.lookahead
            if stopped:
                break
        queue.advance(host.id, line, kept)
        if line.count and kept is None:  # pushed in this unit: not met yet
            visit.again(max(turn.now, due_of(line.head)), "retry")
        return not stopped

    def _walk_ready(self, turn: Turn, host: Host, visit: Visit) -> bool:
        """→ whether others may be looked at too."""
        line, queue = host.ready, self._ledger.ready
        if not line.count:
            return True
        kept: bytes | None = None
        left = 0
        stopped = False
        for place, item in queue.walk(turn.unit, host.id, line):
            fate = self._one(turn, host, visit, place, item)
            if fate is Fate.TAKEN:
                continue
            left += 1
            kept = kept or place
            stopped = fate is Fate.STOP or visit.blocked >= self._tuning.lookahead
            if stopped:
                break
        queue.advance(host.id, line, kept)
        if line.count > left and not stopped:
            visit.again(turn.now)  # pushed in this unit: not met yet
        return not stopped

    def _one(self, turn: Turn, host: Host, visit: Visit, place: bytes, item: Item) -> Fate:
        if turn.unfetched >= self._tuning.unfetched or not self._origins.patient:
            visit.again(turn.now)
            return Fate.STOP
        kind = turn.policy.page_type(item.url)
        if kind != item.page_type:  # it was found under other page types, or in another spelling
            item = msgspec.structs.replace(item, page_type=kind)
        if host.given_up == turn.run:
            return self._drop(turn, host, place, item, State.FAILED, "host_dead")
        if not self._has_room(turn, visit):
            return Fate.STOP
        origin = origin_of(item.url)
        if origin != host.origin:
            host.origin = origin
            self._ledger.hosts.change(host)
        record = self._origins.get(turn.unit, origin)
        match self._origins.standing(origin, record, turn.now, turn.run):
            case Standing.KNOWN:
                return self._judged(turn, host, visit, place, item, origin, record)
            case Standing.UNAVAILABLE:
                return self._drop(turn, host, place, item, State.FAILED, "robots_unavailable")
            case Standing.FORBIDDEN:
                return self._drop(turn, host, place, item, State.REFUSED, "address")
            case Standing.WAITING:
                visit.again(record.retry_at, "robots")
            case Standing.NEEDED:
                if self._no_credit(turn, visit, item):
                    return Fate.STOP
                self._ask_robots(turn, host, origin)
                visit.room -= 1
            case Standing.ASKED:
                pass
            case never:
                assert_never(never)
        visit.blocked += 1
        return Fate.BLOCKED

    def _judged(
        self, turn: Turn, host: Host, visit: Visit, place: bytes, item: Item, origin: str, record: OriginRecord
    ) -> Fate:
        verdict = turn.policy.judge(item.url, item.depth, item.hop, self._tuning.max_hops)
        if not verdict.allowed:  # it was let in under an older policy
            self._aside.keep(turn.unit, item)
            return self._refuse(turn, host, place, item, verdict.reason)
        if not self._origins.allows(turn.unit, origin, record, item.url):
            self._ledger.counters.robots_denials += 1
            return self._refuse(turn, host, place, item, "robots_disallow")
        reserved = self._caps.place(turn.unit, host, item, turn.policy)
        if reserved.room is Room.SPENT:
            return self._refuse(turn, host, place, item, "cap")
        if reserved.room is Room.GROUP_BUSY:
            visit.blocked += 1
            return Fate.BLOCKED
        if reserved.room is Room.HOST_BUSY:
            return Fate.STOP
        if not item.counted and not self._budget.reserve(turn):
            visit.again(turn.now)
            return Fate.STOP
        self._ledger.dequeue(turn, host, place)
        delay, connections = self._pace(turn, host)
        lease = Lease(
            fetch_id=self._ledger.counters.next_fetch_id(turn.now),
            kind="page",
            host=host.name,
            item=item,
            delay=max(delay, self._origins.delay(record)),
            valid_until=record.valid_until,
            released_at=turn.now,
            run=turn.run,
            credit=not item.counted,
            connections=connections,
            max_bytes=reserved.max_bytes,
            groups=reserved.groups,
            store=turn.policy.stored(item.page_type),
        )
        self._ledger.lease(turn, lease)
        visit.room -= 1
        return Fate.TAKEN

    def _pace(self, turn: Turn, host: Host) -> tuple[float, int]:
        """Seconds between two requests, and how many at once, as the settings want it."""
        delay, connections = turn.policy.polite(host.name)
        return (turn.control.settings.delay if delay is None else delay), connections

    def _ask_robots(self, turn: Turn, host: Host, origin: str) -> None:
        url = origin + "/robots.txt"
        lease = Lease(
            fetch_id=self._ledger.counters.next_fetch_id(turn.now),
            kind="robots",
            host=host.name,
            item=Item(url, xxhash.xxh3_128_digest(url.encode()), 0, page_type="robots"),
            delay=self._pace(turn, host)[0],
            valid_until=turn.now + _ROBOTS_TASK_VALID,
            released_at=turn.now,
            run=turn.run,
        )
        self._ledger.lease(turn, lease)

    def _refuse(self, turn: Turn, host: Host, place: bytes, item: Item, reason: str) -> Fate:
        self._ledger.dequeue(turn, host, place)
        self._ledger.refuse(turn, item, reason)
        return Fate.TAKEN

    def _drop(self, turn: Turn, host: Host, place: bytes, item: Item, state: State, reason: str) -> Fate:
        self._ledger.dequeue(turn, host, place)
        self._ledger.settle_unfetched(turn, item, state, reason)
        return Fate.TAKEN

    def _has_room(self, turn: Turn, visit: Visit) -> bool:
        """With the host's window full its own results bring us back; with the partition's, it keeps its turn."""
        if visit.room <= 0:
            return False
        if len(self._ledger.leases) >= self._tuning.partition_window:
            visit.again(turn.now)
            return False
        return True

    def _no_credit(self, turn: Turn, visit: Visit, item: Item) -> bool:
        """No robots.txt is asked for on behalf of a page that could not follow it."""
        if item.counted or not self._budget.dry:
            return False
        visit.again(turn.now)
        return True


def _held(host: Host) -> str:
    """Why it is left alone until `held_until`."""
    return "breaker" if host.cooldown_until >= host.not_before else "retry_after"
