"""What is known of one URL, from committed state, for people."""

from typing import Any

from headrace_frontier import hosts, origins
from headrace_frontier.queues import due_of, is_delayed
from headrace_frontier.robots import RobotsRules
from headrace_frontier.seen import Entry, seen_key, unpack
from headrace_runtime.streams.seams import StateView
from headrace_schemas.messages import State
from headrace_schemas.urls import host_of, origin_of, registrable_domain


def explain(state: StateView, key: bytes, url: str, agent: str = "headrace") -> dict[str, Any]:
    """`state` must be of the partition that `url` lives in. A URL never found has state "unknown"."""
    raw = state.get([seen_key(key)])[0]
    known = {"state": "unknown"} if raw is None else _entry(unpack(raw))
    return {"url": url, **known, "host": _host(state, url), "robots": _robots(state, url, agent)}


def _entry(entry: Entry) -> dict[str, Any]:
    known: dict[str, Any] = {
        "state": entry.state.name.lower(),
        "depth": entry.depth,
        "hop": entry.hop,
        "reason": entry.reason,
        "attempts": entry.attempts,
        "policy_revision": entry.revision,
        "run": entry.run,
        "counted": entry.counted,
    }
    if entry.state is State.QUEUED:
        known["not_before"] = due_of(entry.place) if is_delayed(entry.place) else 0.0
    return known


def _host(state: StateView, url: str) -> dict[str, Any] | None:
    """By host name, or by domain where that is the politeness key."""
    name = host_of(url)
    for candidate in (name, registrable_domain(name)):
        raw = state.get([hosts.host_key(candidate)])[0]
        if raw is not None:
            host = hosts.load(raw)
            return {
                "name": host.name,
                "queued": host.queued,
                "window": host.window,
                "due": host.due / 1000,
                "held_until": host.held_until,
                "failures": host.failures,
                "breaker_opened": host.opened,
                "given_up_in_run": host.given_up,
                "latency": host.latency,
            }
    return None


def _robots(state: StateView, url: str, agent: str) -> dict[str, Any] | None:
    raw = state.get([origins.origin_key(origin_of(url))])[0]
    if raw is None:
        return None
    record = origins.load(raw)
    if not record.fetched_at:
        return {
            "known": False,
            "tries": record.tries,
            "retry_at": record.retry_at,
            "given_up_in_run": record.given_up,
            "forbidden_in_run": record.forbidden,
        }
    rules = RobotsRules.parse(record.text, agent)
    verdict = rules.judge(url)
    return {
        "known": True,
        "status": record.status,
        "fetched_at": record.fetched_at,
        "valid_until": record.valid_until,
        "allowed": verdict.allowed,
        "rule": verdict.rule,
        "crawl_delay": rules.crawl_delay,
    }
