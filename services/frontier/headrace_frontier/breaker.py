"""A host that fails time and again is left alone, and at last given up for this run."""

from headrace_frontier.hosts import Host
from headrace_frontier.tuning import Tuning
from headrace_schemas.messages import Failed

_UNREACHABLE = frozenset({"connect", "dns", "tls"})
_FAULTS = _UNREACHABLE | {"timeout", "protocol"}
_TOO_MANY = 429


def is_fault(failed: Failed) -> bool:
    """Whether it says something about the host rather than about the URL."""
    return failed.reason in _FAULTS or failed.status >= 500 or failed.status == _TOO_MANY


def is_news(failed: Failed, attempt: int) -> bool:
    """Whether the `attempt`-th failure of a URL (from 0) says something of the host that the one before did not. Two
    pages that always answer 500, tried three times each, are two bad pages and not a host that failed six times."""
    return attempt == 0 or failed.reason in _UNREACHABLE or failed.status == _TOO_MANY


def in_doubt(host: Host) -> bool:
    """Whether a URL that was not tried yet tells more than one that failed."""
    return bool(host.failures or host.opened)


def answered(host: Host) -> None:
    """Any answer that is no fault: the host lives, also if it had been given up."""
    host.failures = host.opened = host.given_up = 0
    host.cooldown_until = 0.0


def failed(host: Host, released_at: float, now: float, run: int, tuning: Tuning) -> None:
    """What was released before the breaker opened says nothing new. After a cool-down one failure opens it again."""
    if released_at < host.cooldown_until or host.given_up == run:
        return
    host.failures += 1
    if host.failures < (1 if host.opened else tuning.breaker_failures):
        return
    host.failures = 0
    host.cooldown_until = now + tuning.breaker_cooldown * 2**host.opened
    host.opened += 1
    if host.opened >= tuning.breaker_opens:
        host.opened, host.cooldown_until, host.given_up = 0, 0.0, run
