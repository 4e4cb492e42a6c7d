"""The numbers of one partition, kept in the same commit as what they count."""

import msgspec
from msgspec import Struct

from headrace_frontier.seen import Entry
from headrace_schemas.messages import State

COUNTERS = b"c"
_encode = msgspec.msgpack.Encoder().encode


class Counters(Struct, array_like=True):
    sequence: int = 0
    """Last number given to a URL that waits for a time."""
    fetch_id: int = 0
    """Last number given to a release."""
    states: list[int] = msgspec.field(default_factory=lambda: [0] * (len(State) + 1))
    """URLs in each `State`, by its number."""
    tasks_in_flight: int = 0
    free: int = 0
    """Of the queued: those that take no credit of `max_pages`, having been counted before."""
    body_bytes: int = 0
    released: int = 0
    late: int = 0
    """Results of leases settled before."""
    rejected: dict[str, int] = {}
    refused_by: dict[str, int] = {}
    failed_by: dict[str, int] = {}
    robots_denials: int = 0
    waiting_hosts: int = 0
    """Hosts in the due index."""
    oldest_lease: int = 0
    """No lease has a smaller number."""
    denied: dict[str, int] = {}
    """Refusals by circumstance, by reason, ever; `refused_by` are those that stand."""
    breakers_open: int = 0
    """Hosts whose breaker is not closed: open, or half-open and on trial."""
    breakers_opened: int = 0
    """Times one opened, ever."""
    hosts_given_up: int = 0
    """Times a host was given up for a run."""

    def count(self, entry: Entry, by: int) -> None:
        """`entry` came (1) or went (-1)."""
        self.states[entry.state] += by
        if entry.state is State.QUEUED:
            self.free += by if entry.counted else 0
        elif entry.state is State.FAILED:
            _add(self.failed_by, entry.reason, by)
        elif entry.state is State.REFUSED:
            _add(self.refused_by, entry.reason, by)

    def reject(self, reason: str, count: int = 1) -> None:
        _add(self.rejected, reason, count)

    def deny(self, reason: str) -> None:
        _add(self.denied, reason, 1)

    def next_sequence(self) -> int:
        self.sequence += 1
        return self.sequence

    def next_fetch_id(self, now: float) -> int:
        """Begins at the time, in microseconds: an index that outlived the state of an earlier frontier (a lost broker,
        a move to another) takes what is fetched now for newer than what it has."""
        self.fetch_id = self.fetch_id + 1 if self.fetch_id else int(now * 1_000_000)
        return self.fetch_id

    @property
    def queued(self) -> int:
        return self.states[State.QUEUED]

    def encoded(self) -> bytes:
        return _encode(self)


def _add(counts: dict[str, int], word: str, by: int) -> None:
    left = counts.get(word, 0) + by
    if left:
        counts[word] = left
    else:
        counts.pop(word, None)


def load(raw: bytes | None) -> Counters:
    return msgspec.msgpack.decode(raw, type=Counters) if raw else Counters()
