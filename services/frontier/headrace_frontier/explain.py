"""What is known of one URL, from committed state: facts, put into words elsewhere.

Every rule is asked of the part that applies it when a URL is released; nothing here decides anything by itself.
"""

from typing import Any

from headrace_frontier import breaker
from headrace_frontier.caps import Caps
from headrace_frontier.look import Around, Look, Rules
from headrace_frontier.origins import OriginRecord, Standing
from headrace_frontier.policy import Verdict
from headrace_frontier.queues import Item
from headrace_frontier.seen import Entry
from headrace_frontier.waits import place_of, waits_of
from headrace_runtime.streams.seams import StateView
from headrace_schemas.errors import UsageError
from headrace_schemas.messages import State
from headrace_schemas.urls import BadUrl, Canonicaliser, Found


class Explainer:
    """Answers for any partition; holds no state."""

    def __init__(self, canonicaliser: Canonicaliser, rules: Rules) -> None:
        self._canonicaliser, self._rules = canonicaliser, rules

    def find(self, url: str) -> tuple[Found, int]:
        """Both forms of it, and the partition to ask."""
        try:
            found = self._canonicaliser.find(url)
            return found, self._rules.partitioner.partition(found.url)
        except BadUrl as error:
            raise UsageError(f"{url!r} is no http(s) URL ({error.reason})") from None

    def explain(self, view: StateView, found: Found, around: Around) -> dict[str, Any]:
        """`view`: of the partition that `find` named. A URL never found has state "unknown"."""
        return {"key": found.key.hex(), **explained(Look(self._rules, view, found, around))}


def explained(look: Look) -> dict[str, Any]:
    control = look.around.control
    depth, hop = (look.entry.depth, look.entry.hop) if look.entry else (0, 0)
    verdict = look.policy.judge(look.url, depth, hop, look.tuning.max_hops)
    place = place_of(look)
    return {
        "url": look.url,
        "partition": look.partition,
        "at": look.around.now,
        "mode": control.mode,
        "current_run": control.run,
        "completed_run": control.completed_run,
        **({"state": "unknown"} if look.entry is None else _entry(look.entry)),
        "found": _found(look),
        "scope": _scope(look, verdict),
        "robots": _robots(look),
        "host": _host(look),
        "queue": place,
        "lease": _lease(look),
        "cap": (cap := _cap(look)),
        "if_found_again": _again(look, verdict, cap),
        "waits": waits_of(look, verdict, place),
    }


def _entry(entry: Entry) -> dict[str, Any]:
    return {
        "state": entry.state.name.lower(),
        "depth": entry.depth,
        "hop": entry.hop,
        "reason": entry.reason,
        "attempts": entry.attempts,
        "policy_revision": entry.revision,
        "run": entry.run,
        "counted": entry.counted,
    }


def _found(look: Look) -> dict[str, Any] | None:
    """Only while it is not settled; then the index has it."""
    item = look.item
    if item is None:
        return None
    return {"referrer": item.referrer, "depth": item.depth, "hop": item.hop, "chain": list(item.chain)}


def _scope(look: Look, verdict: Verdict) -> dict[str, Any]:
    return {
        "allowed": verdict.allowed,
        "reason": verdict.reason,
        "rule": verdict.rule,
        "page_type": look.policy.page_type(look.url),
        "group": look.policy.group(look.url),
    }


def _robots(look: Look) -> dict[str, Any] | None:
    """None: nobody has asked for it yet."""
    record = look.record
    if record == OriginRecord() and look.standing is not Standing.ASKED:
        return None
    facts: dict[str, Any] = {
        "known": bool(record.fetched_at),
        "standing": look.standing.name.lower(),
        "tries": record.tries,
        "retry_at": record.retry_at,
    }
    if record.fetched_at:
        verdict = look.origins.rules(look.unit, look.origin, record).judge(look.url)
        facts |= {
            "status": record.status,
            "fetched_at": record.fetched_at,
            "valid_until": record.valid_until,
            "allowed": verdict.allowed,
            "rule": verdict.rule,
            "crawl_delay": record.delay or None,
            "crawl_delay_rule": record.delay_rule,
            "sitemaps": record.sitemaps,
        }
    return facts


def _host(look: Look) -> dict[str, Any] | None:
    host = look.host
    if host is None:
        return None
    return {
        "name": host.name,
        "queued": host.queued,
        "in_flight": look.leases.of_host(host.name),
        "fetched": host.fetched,
        "bytes": host.body_bytes,
        "window": host.window,
        "delay": look.delay,
        "latency": host.latency,
        "due": host.due / 1000,
        "held_until": host.held_until,
        "failures": host.failures,
        "breaker": breaker.state_of(host, look.around.now),
        "given_up": host.given_up == look.around.run,
    }


def _cap(look: Look) -> str:
    """The cap that is spent for it, if one is."""
    if look.host is None or look.state not in (State.QUEUED, State.REFUSED):
        return ""
    item = look.item or Item(look.url, b"", 0, counted=look.entry is not None and look.entry.counted)
    return Caps(look.leases).spent(look.unit, look.host, item, look.policy)


def _again(look: Look, verdict: Verdict, cap: str) -> bool:
    """It was refused, and would now be queued if a link to it were found: settings have changed since."""
    if look.entry is None or look.state is not State.REFUSED or look.entry.revision >= look.around.control.revision:
        return False
    judge = look.origins.rules(look.unit, look.origin, look.record)
    forbidden = look.standing is Standing.KNOWN and not judge.judge(look.url).allowed
    return verdict.allowed and not cap and not forbidden and look.standing is not Standing.FORBIDDEN


def _lease(look: Look) -> dict[str, Any] | None:
    lease = look.lease
    if lease is None:
        return None
    return {"fetch_id": lease.fetch_id, "since": lease.released_at, "attempt": lease.item.attempt + 1}
