"""What the robots.txt of each origin said, and what to do until it has been heard. RFC 9309 section 2.3.

r | origin  →  OriginRecord
R | origin  →  Rulebook, where there are rules for us: most origins are looked at without them
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
from headrace_frontier.robots import Delay, RobotsRules
from headrace_frontier.rules import Judge, Rulebook
from headrace_frontier.tuning import Tuning
from headrace_runtime.streams.seams import Unit
from headrace_schemas.messages import Deferred, Failed, Fetched, Outcome, Redirected, Refused, Robots
from headrace_schemas.settings import RobotsSettings

ORIGIN, RULES = b"r", b"R"
_NO_SERVER = frozenset({"dns", "tls"})
_JITTER = 1.2
_encode = msgspec.msgpack.Encoder().encode


class OriginRecord(Struct, frozen=True, gc=False, array_like=True):
    status: int = 0
    text: bytes = b""
    """Only of older releases: the file, not compiled yet."""
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
    agent: str = ""
    """For whom the file was read; empty: for whomever."""
    ruled: bool = False
    """There is a `Rulebook`."""
    delay: float = 0.0
    """Seconds it asks for between two requests."""
    delay_rule: str = ""
    """The line that asks for it, for people."""
    sitemaps: int = 0


_decode = msgspec.msgpack.Decoder(OriginRecord).decode
_decode_rules = msgspec.msgpack.Decoder(Rulebook).decode


def origin_key(origin: str) -> bytes:
    return ORIGIN + origin.encode()


def rules_key(origin: str) -> bytes:
    return RULES + origin.encode()


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
        self._judges: OrderedDict[str, tuple[Judge, int]] = OrderedDict()
        """With the bytes each takes."""
        self._bytes = 0
        self._left = tuning.judging
        self._agent = ""
        self._everything = Judge(Rulebook())

    def follow(self, agent: str) -> None:
        """Groups are matched against `agent` from now on."""
        if agent != self._agent:
            self._agent = agent
            self._records.clear()
            self._judges.clear()
            self._bytes = 0

    def begin(self) -> None:
        """There is time again for `Tuning.judging`."""
        self._left = self._tuning.judging

    @property
    def patient(self) -> bool:
        """Whether more URLs may be judged before others have their turn."""
        return self._left > 0

    def fetch(self, unit: Unit, origins: Iterable[str]) -> None:
        """Reads those not at hand in one go."""
        missing = [origin for origin in origins if origin not in self._records]
        for origin, raw in zip(missing, unit.get([origin_key(origin) for origin in missing]), strict=True):
            self._records[origin] = OriginRecord() if raw is None else self._loaded(unit, origin, load(raw))
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

    def rules(self, unit: Unit, origin: str, record: OriginRecord) -> Judge:
        if not record.ruled:
            return self._everything
        kept = self._judges.get(origin)
        if kept is not None:
            self._judges.move_to_end(origin)
            return kept[0]
        [raw] = unit.get([rules_key(origin)])
        if raw is None:
            raise LookupError(f"the rules of {origin} are not in the state")  # it is broken: do not go on
        book = _decode_rules(raw)
        judge = Judge(book)
        self._judges[origin] = judge, book.size
        self._bytes += book.size
        self._left -= book.size  # a nanosecond for a byte, about
        while self._bytes > self._tuning.robots_cached_bytes and len(self._judges) > 1:
            self._forget(next(iter(self._judges)))
        return judge

    def allows(self, unit: Unit, origin: str, record: OriginRecord, url: str) -> bool:
        if not record.ruled:
            return True
        judge = self.rules(unit, origin, record)
        self._left -= judge.cost(url)
        return judge.judge(url).allowed

    def delay(self, record: OriginRecord) -> float:
        """Seconds it asks for between two requests, clamped."""
        return min(record.delay, self._settings.max_delay)

    def answered(
        self, unit: Unit, origin: str, outcome: Outcome, now: float, run: int, seed: int, delay: float
    ) -> None:
        """`delay`: seconds between two requests to its host, as far as was known when it was asked."""
        known, book = self.get(unit, origin), None
        if isinstance(outcome, Robots) and 200 <= outcome.status < 300:
            record, book = self._read(OriginRecord(outcome.status, outcome.text, now, now + self._settings.ttl))
        else:
            record = self._without_text(known, outcome, now, run, seed)
        if record.fetched_at and now <= record.valid_until:
            least = now + 2 * max(delay, self.delay(record)) + self._tuning.robots_least
            record = msgspec.structs.replace(record, valid_until=max(record.valid_until, least))
        self._keep(unit, origin, known, record, book)

    def _without_text(self, known: OriginRecord, outcome: Outcome, now: float, run: int, seed: int) -> OriginRecord:
        record = _judged(known, outcome, self._settings.ttl, now, run)
        if record is None:
            return self._failed(known, outcome, now, run, seed)
        if isinstance(outcome, Deferred):
            retry_at = max(self._backoff.until(record.retry_at, now), now + self._tuning.deferred_wait)
            return msgspec.structs.replace(record, retry_at=retry_at)
        return record

    def _read(self, record: OriginRecord) -> tuple[OriginRecord, Rulebook | None]:
        """The file itself is not kept."""
        rules = RobotsRules.parse(record.text, self._agent)
        delay = rules.delay or Delay(0.0, "")
        record = msgspec.structs.replace(
            record,
            text=b"",
            agent=self._agent,
            ruled=rules.book != Rulebook(),
            delay=delay.seconds,
            delay_rule=delay.rule,
            sitemaps=len(rules.sitemaps),
        )
        return record, rules.book if record.ruled else None

    def _keep(self, unit: Unit, origin: str, known: OriginRecord, record: OriginRecord, book: Rulebook | None) -> None:
        unit.put(origin_key(origin), _encode(record))
        if book is not None:
            unit.put(rules_key(origin), _encode(book))
        elif known.ruled and not record.ruled:
            unit.delete(rules_key(origin))
        self._forget(origin)
        self._records[origin] = record

    def _loaded(self, unit: Unit, origin: str, record: OriginRecord) -> OriginRecord:
        """As it was written, by this release or an older one, for this agent or for another."""
        if record.text:
            read, book = self._read(record)
            self._keep(unit, origin, record, read, book)
            return read
        if record.agent in ("", self._agent):
            return record
        # What another was told is not for us: it is asked for again.
        return msgspec.structs.replace(record, status=0, fetched_at=0.0, valid_until=0.0, delay=0.0, delay_rule="")

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
        """All pages of an origin hang on this one file, so a server that stumbles has some time. That is not what
        ails one whose name is unknown, or whose certificate is not right."""
        asked = outcome.retry_after if isinstance(outcome, Failed) else 0.0
        if isinstance(outcome, Failed) and outcome.reason in _NO_SERVER:
            return self._backoff.wait(tries, seed, asked)
        patient = self._settings.retry * 2.0 ** (tries - 1) * random.Random(seed).uniform(1.0, _JITTER)
        return max(patient, self._backoff.honoured(asked))

    def _forget(self, origin: str) -> None:
        """Its rules."""
        kept = self._judges.pop(origin, None)
        if kept is not None:
            self._bytes -= kept[1]


def _judged(record: OriginRecord, outcome: Outcome, ttl: float, now: float, run: int) -> OriginRecord | None:
    """What `outcome` makes of `record`; None: there was no usable answer."""
    match outcome:
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
