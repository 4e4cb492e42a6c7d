"""Why nothing happens to a queued URL now: the rules of a release, asked one after the other."""

from itertools import islice
from typing import Any

from headrace_frontier import priority
from headrace_frontier.caps import Caps, Room
from headrace_frontier.hosts import Host
from headrace_frontier.look import Look
from headrace_frontier.origins import Standing
from headrace_frontier.policy import Verdict
from headrace_frontier.queues import DELAYED, FIRST, READY, Item, due_of, is_delayed
from headrace_schemas.messages import State

MOST_AHEAD = 1_000
"""URLs counted ahead of one in its queue: a question costs the same however long the queue is."""

Waits = list[dict[str, Any]]
"""The most telling first: {"for": word, "until": seconds since the epoch, if known, …}."""


def place_of(look: Look) -> dict[str, Any] | None:
    """Where it stands in the queue of its host; None: it is not queued."""
    entry, host, item = look.entry, look.host, look.item
    if entry is None or host is None or item is None or entry.state is not State.QUEUED:
        return None
    delayed = is_delayed(entry.place)
    prefix, head = (DELAYED, host.delayed.head) if delayed else (READY, host.ready.head)
    start = prefix + host.id
    ahead = sum(1 for _ in islice(look.view.scan(start + head, start + entry.place), MOST_AHEAD + 1))
    first = not delayed and entry.place[0] == FIRST
    return {
        "ahead": min(ahead, MOST_AHEAD),
        "more": ahead > MOST_AHEAD,
        "priority": "first" if first else priority.WORDS[min(item.priority, priority.LOW)],
        "not_before": due_of(entry.place) if delayed else 0.0,
    }


def waits_of(look: Look, verdict: Verdict, place: dict[str, Any] | None) -> Waits:
    """What must pass before it is asked for, or what it will be settled with instead."""
    mode = look.around.control.mode
    stopped: Waits = [] if mode == "running" else [{"for": mode}]
    if look.lease is not None:
        return [*stopped, {"for": "answer", "since": look.lease.released_at}]
    host, item = look.host, look.item
    if place is None or host is None or item is None:
        return []
    ending = _ending(look, host, verdict)
    if ending is not None:
        return [*stopped, {"for": ending}]
    waits = [*stopped, *_held(look, host, place), *_robots(look), *_limits(look, host, item)]
    return waits or [_turn(look, host, place)]


def _ending(look: Look, host: Host, verdict: Verdict) -> str | None:
    """It will be settled without a request when it is looked at next."""
    if host.given_up == look.around.run:
        return "host_dead"
    if look.standing is Standing.UNAVAILABLE:
        return "robots_unavailable"
    if look.standing is Standing.FORBIDDEN:
        return "address"
    if not verdict.allowed:
        return "scope"
    known = look.standing is Standing.KNOWN
    if known and not look.origins.allows(look.unit, look.origin, look.record, look.url):
        return "robots_disallow"
    return None


def _held(look: Look, host: Host, place: dict[str, Any]) -> Waits:
    times = (("breaker", host.cooldown_until), ("retry_after", host.not_before), ("retry", place["not_before"]))
    return [{"for": word, "until": until} for word, until in times if until > look.around.now]


def _robots(look: Look) -> Waits:
    match look.standing:
        case Standing.ASKED:
            return [{"for": "robots_asked"}]
        case Standing.WAITING:
            return [{"for": "robots", "until": look.record.retry_at, "tries": look.record.tries}]
        case Standing.NEEDED:
            return [{"for": "robots_needed"}]
    return []


def _limits(look: Look, host: Host, item: Item) -> Waits:
    waits: Waits = []
    settings = look.settings
    room = Caps(look.leases).place(look.unit, host, item, look.policy).room
    if room is Room.SPENT:
        waits.append({"for": "cap"})
    elif room is not Room.FREE:
        waits.append({"for": "cap_busy"})
    if not item.counted and look.budget.dry:
        waits.append({"for": "budget" if look.budget.spent else "credit", "limit": settings.max_pages})
    if look.around.backlog > settings.max_backlog:
        waits.append({"for": "backlog", "behind": look.around.backlog, "limit": settings.max_backlog})
    if len(look.leases) >= look.tuning.partition_window:
        waits.append({"for": "window", "in_flight": len(look.leases)})
    return waits


def _turn(look: Look, host: Host, place: dict[str, Any]) -> dict[str, Any]:
    """Nothing but politeness: those ahead of it, and those under way, each take a delay or an answer's time."""
    pace = max(look.delay, host.latency)
    before = place["ahead"] + look.leases.of_host(host.name)
    return {"for": "turn", "until": look.around.now + before * pace, "at_least": place["more"]}
