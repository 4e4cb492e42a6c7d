"""What the robots.txt of each origin said, and what to do until it has been heard. RFC 9309 section 2.3.

r | origin  →  OriginRecord
"""

import random
from collections import OrderedDict
from collections.abc import Iterable
from enum import Enum, auto
from typing import assert_never

import msgspec
from msgspec import Struct

from headrace_frontier.leases import Leases
from headrace_frontier.retry import Backoff
from headrace_frontier.robots import RobotsRules, compact
from headrace_frontier.tuning import Tuning
from headrace_runtime.streams.seams import Unit
from headrace_schemas.messages import Deferred, Failed, Fetched, Outcome, Redirected, Refused, Robots
from headrace_schemas.settings import RobotsSettings

ORIGIN = b"r"
_NO_SERVER = frozenset({"dns", "tls"})
_JITTER = 1.2
_encode = msgspec.msgpack.Encoder().encode


class OriginRecord(Struct, frozen=True, gc=False, array_like=True):
    status: int = 0
    text: bytes = b""
    """The part that matters, see `robots.compact`; empty: all is allowed."""
    fetched_at: float = 0.0
    """0: never had."""
    valid_until: float = 0.0
    tries: int = 0
    """In a row that failed."""
    retry_at: float = 0.0
    given_up: int = 0
    """Run under which it was given up."""
    forbidden: int = 0
    """Run under which its address was found to be not allowed."""


_decode = msgspec.msgpack.Decoder(OriginRecord).decode


def origin_key(origin: str) -> bytes:
    return ORIGIN + origin.encode()


def load(raw: bytes) -> OriginRecord:
    return _decode(raw)


class Standing(Enum):
    KNOWN = auto()
    NEEDED = auto()
    """Its robots.txt is to be asked for first."""
    ASKED = auto()
    WAITING = auto()
    """It failed and is asked for again at `retry_at`."""
    UNAVAILABLE = auto()
    FORBIDDEN = auto()


class Origins:
    def __init__(self, settings: RobotsSettings, backoff: Backoff, tuning: Tuning, leases: Leases) -> None:
        self._settings, self._backoff, self._tuning, self._leases = settings, backoff, tuning, leases
        self._records: OrderedDict[str, OriginRecord] = OrderedDict()
        self._rules: OrderedDict[str, RobotsRules] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._total = 0
        self._agent = ""
        self._everything = RobotsRules.parse(b"", "")

    def follow(self, agent: str) -> None:
        """Groups are matched against `agent` from now on."""
        if agent != self._agent:
            self._agent = agent
            self._rules.clear()
            self._sizes.clear()
            self._total = 0

    def fetch(self, unit: Unit, origins: Iterable[str]) -> None:
        """Reads those not at hand in one go."""
        missing = [origin for origin in origins if origin not in self._records]
        for origin, raw in zip(missing, unit.get([origin_key(origin) for origin in missing]), strict=True):
            self._records[origin] = OriginRecord() if raw is None else load(raw)
        while len(self._records) > max(self._tuning.origins_cached, len(missing)):
            self._forget(self._records.popitem(last=False)[0])

    def get(self, unit: Unit, origin: str) -> OriginRecord:
        record = self._records.get(origin)
        if record is None:
            self.fetch(unit, (origin,))
            return self._records[origin]
        self._records.move_to_end(origin)
        return record

    def standing(self, origin: str, record: OriginRecord, now: float, run: int) -> Standing:
        if record.forbidden == run:
            return Standing.FORBIDDEN
        if record.given_up == run:
            return Standing.UNAVAILABLE
        if record.fetched_at and now < record.valid_until:
            return Standing.KNOWN
        if self._leases.asked(origin):
            return Standing.ASKED
        return Standing.WAITING if now < record.retry_at else Standing.NEEDED

    def rules(self, origin: str, record: OriginRecord) -> RobotsRules:
        if not record.text:
            return self._everything
        rules = self._rules.get(origin)
        if rules is None:
            rules = self._rules[origin] = RobotsRules.parse(record.text, self._agent)
            self._sizes[origin] = len(record.text)
            self._total += len(record.text)
            while self._total > self._tuning.robots_cached_bytes and len(self._rules) > 1:
                self._forget(next(iter(self._rules)))
        else:
            self._rules.move_to_end(origin)
        return rules

    def delay(self, origin: str, record: OriginRecord) -> float:
        """Seconds it asks for between two requests, clamped."""
        return min(self.rules(origin, record).crawl_delay or 0.0, self._settings.max_delay)

    def answered(
        self, unit: Unit, origin: str, outcome: Outcome, now: float, run: int, seed: int, delay: float
    ) -> None:
        """`delay`: seconds between two requests to its host, as far as was known when it was asked."""
        record = _judged(self.get(unit, origin), outcome, self._settings.ttl, now, run)
        if record is None:
            record = self._failed(self.get(unit, origin), outcome, now, run, seed)
        elif isinstance(outcome, Deferred):
            retry_at = max(self._backoff.until(record.retry_at, now), now + self._tuning.deferred_wait)
            record = msgspec.structs.replace(record, retry_at=retry_at)
        self._forget(origin)
        if record.fetched_at and now <= record.valid_until:
            least = now + 2 * max(delay, self.delay(origin, record)) + self._tuning.robots_least
            record = msgspec.structs.replace(record, valid_until=max(record.valid_until, least))
        unit.put(origin_key(origin), _encode(record))
        self._records[origin] = record

    def _failed(self, record: OriginRecord, outcome: Outcome, now: float, run: int, seed: int) -> OriginRecord:
        """5xx, 429 or no answer: nothing may be asked for, except by a good copy that is not too old."""
        kept_until = record.fetched_at + self._tuning.robots_keep
        if record.fetched_at and now < kept_until:
            until = min(now + self._tuning.robots_again, kept_until)
            return msgspec.structs.replace(record, valid_until=until, tries=0, retry_at=0.0)
        tries = record.tries + 1
        if tries >= self._tuning.robots_tries:
            return OriginRecord(given_up=run)
        return OriginRecord(tries=tries, retry_at=now + self._wait(tries, outcome, seed))

    def _wait(self, tries: int, outcome: Outcome, seed: int) -> float:
        """All pages of an origin hang on this one file, so a server has the time to be restarted. That is not what
        ails one whose name is unknown, or whose certificate is not right."""
        asked = outcome.retry_after if isinstance(outcome, Failed) else 0.0
        if isinstance(outcome, Failed) and outcome.reason in _NO_SERVER:
            return self._backoff.wait(tries, seed, asked)
        patient = self._settings.retry * 2.0 ** (tries - 1) * random.Random(seed).uniform(1.0, _JITTER)
        return max(patient, self._backoff.honoured(asked))

    def _forget(self, origin: str) -> None:
        if self._rules.pop(origin, None) is not None:
            self._total -= self._sizes.pop(origin)


def _judged(record: OriginRecord, outcome: Outcome, ttl: float, now: float, run: int) -> OriginRecord | None:
    """What `outcome` makes of `record`; None: there was no usable answer."""
    match outcome:
        case Robots(status=status, text=text) if 200 <= status < 300:
            return OriginRecord(status, compact(text), now, now + ttl)
        case Robots(status=status) | Failed(status=status) if 400 <= status < 500 and status != 429:
            return OriginRecord(status, b"", now, now + ttl)
        case Robots(status=status) if 300 <= status < 400:
            return OriginRecord(status, b"", now, now + ttl)  # too many redirects: RFC 9309 section 2.3.1.2
        case Failed(reason="too_many_redirects", status=status):
            return OriginRecord(status, b"", now, now + ttl)
        case Refused():
            return OriginRecord(forbidden=run)
        case Deferred(not_before=not_before):
            return msgspec.structs.replace(record, retry_at=not_before)
        case Robots() | Failed() | Fetched() | Redirected():
            return None
    assert_never(outcome)
