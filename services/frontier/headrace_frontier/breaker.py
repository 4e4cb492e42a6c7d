"""A host that fails time and again is left alone, tried again with care, and at last given up for this run.

closed ── failures in a row, or refusals ──► open ── cool-down over ──► half-open ── successes ──► closed
                                              ▲                            │
                                              └──────── one failure ───────┘   twice without a success: given up
"""

import random
from typing import Literal

from headrace_frontier.hosts import Host
from headrace_schemas.messages import Failed
from headrace_schemas.settings import BreakerSettings

_UNREACHABLE = frozenset({"connect", "dns", "tls"})
_TOO_MANY = 429
_JITTER = 1.2  # a cool-down is at most this much longer than it says: hosts of one provider must not wake together


def is_news(failed: Failed, attempt: int) -> bool:
    """Whether the `attempt`-th failure of a URL (from 0) says something of the host that the one before did not. Two
    pages that always answer 500, tried three times each, are two bad pages and not a host that failed six times."""
    return attempt == 0 or failed.reason in _UNREACHABLE or failed.status == _TOO_MANY


def in_doubt(host: Host) -> bool:
    """Whether a URL that was not tried yet tells more than one that failed."""
    return bool(host.failures or host.refusals or host.opened or host.trial)


def state_of(host: Host, now: float) -> Literal["closed", "open", "half-open"]:
    if host.cooldown_until > now:
        return "open"
    return "half-open" if host.trial else "closed"


def answered(host: Host, released_at: float) -> None:
    """Any answer that is neither fault nor refusal: the host lives, also if it had been given up. What was released
    before the breaker opened tells how it was then: neither such an answer nor such a failure ends a cool-down or
    counts as one of the trials after it, and so the end of the last cool-down is kept."""
    if released_at < host.cooldown_until:
        return
    host.failures = host.refusals = host.opened = host.given_up = 0
    host.trial = max(0, host.trial - 1)


class Breaker:
    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings

    def failed(self, host: Host, failed: Failed, released_at: float, now: float, run: int, seed: int) -> None:
        """What was released before the breaker opened says nothing new. `seed` makes the jitter reproducible."""
        if released_at < host.cooldown_until or host.given_up == run:
            return
        if failed.is_refusal:
            host.refusals += 1
        else:
            host.failures += 1
        s = self._settings
        if host.trial or host.failures >= s.failures or host.refusals >= s.refusals:
            self._open(host, now, run, seed)

    def _open(self, host: Host, now: float, run: int, seed: int) -> None:
        s = self._settings
        wait = s.cooldown * 2 ** min(host.opened, 20) * random.Random(seed).uniform(1.0, _JITTER)
        host.failures = host.refusals = 0
        host.cooldown_until, host.trial = now + wait, s.successes
        host.opened += 1
        if host.opened >= s.opens:
            host.opened, host.trial, host.cooldown_until, host.given_up = 0, 0, 0.0, run
