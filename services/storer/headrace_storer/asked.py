"""A result → the requests that were made for it, as rows of the history."""

from typing import assert_never

from headrace_schemas.messages import (
    Deferred,
    Failed,
    Fetched,
    FetchResult,
    Outcome,
    Redirected,
    Refused,
    Robots,
)
from headrace_storer.changes import FetchChange
from headrace_storer.values import good_key, good_text, good_time, good_version


def requests_of(result: FetchResult) -> tuple[FetchChange, ...]:
    """None where nothing was sent (or where an older release did not say when)."""
    hops = tuple(_hop(result, host, at) for host, at in result.hops)
    return (*hops, _last(result)) if result.asked_at else hops


def _last(result: FetchResult) -> FetchChange:
    phases = result.phases
    return FetchChange(
        key=good_key(result.key),
        fetch_id=good_version(result.fetch_id),
        at=good_time(result.asked_at),
        host=good_text(result.host),
        delay=good_time(result.delay),
        kind=result.kind,
        url=good_text(result.url),
        attempt=result.attempt,
        status=result.status,
        outcome=_word(result.outcome),
        latency_ms=result.latency_ms,
        connect_ms=phases.connect,
        first_byte_ms=phases.first_byte,
        body_ms=phases.body,
        received=result.received,
        protocol=good_text(result.protocol),
        proxy_id=good_text(result.proxy_id),
    )


def _hop(result: FetchResult, host: str, at: float) -> FetchChange:
    """Neither what another host is owed nor what each hop was answered is known here."""
    return FetchChange(
        key=good_key(result.key),
        fetch_id=good_version(result.fetch_id),
        at=good_time(at),
        host=good_text(host),
        delay=good_time(result.delay) if host == result.host else 0.0,
        kind="hop",
        url=good_text(result.url),
        attempt=result.attempt,
    )


def _word(outcome: Outcome) -> str:
    match outcome:
        case Fetched():
            return "fetched"
        case Redirected():
            return "redirected"
        case Robots():
            return "robots"
        case Failed():
            return f"failed:{good_text(outcome.reason)}"
        case Refused():
            return f"refused:{good_text(outcome.reason)}"
        case Deferred():
            return f"deferred:{good_text(outcome.reason)}"
        case _:
            assert_never(outcome)
