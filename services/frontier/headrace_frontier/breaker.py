"""A host that fails time and again is left alone, and at last given up for this run."""

from headrace_frontier.hosts import Host
from headrace_frontier.tuning import Tuning
from headrace_schemas.messages import Failed

_FAULTS = frozenset({"timeout", "connect", "dns", "tls", "protocol"})


def is_fault(failed: Failed) -> bool:
    """Whether it says something about the host rather than about the URL."""
    return failed.reason in _FAULTS or failed.status >= 500 or failed.status == 429


def answered(host: Host) -> None:
    """Any answer that is no fault: the host lives, also if it had been given up."""
    host.failures = host.opened = host.given_up = 0
    host.cooldown_until = 0.0


def failed(host: Host, released_at: float, now: float, run: int, tuning: Tuning) -> None:
    """What was released before the breaker opened says nothing new. After a cool-down one failure opens it again."""
    host.window = 1
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
