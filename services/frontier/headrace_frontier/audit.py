"""Counts everything in a partition's state anew and compares: what is kept by adding and subtracting must be true.

Streams over the entries and looks up what belongs together, so memory stays flat; only the leases, a window's worth,
are held. What follows from two entries is checked from the side that names the other: each place in a queue names its
URL, each entry of the due index its host, each lease its URL. As the sums agree too, nothing is missing on the side
that was not walked.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from headrace_frontier.budget import BUDGET, Books
from headrace_frontier.counters import COUNTERS, Counters
from headrace_frontier.counters import load as load_counters
from headrace_frontier.due import DUE
from headrace_frontier.hosts import HOST, Host, host_key
from headrace_frontier.hosts import load as load_host
from headrace_frontier.leases import LEASE, Lease
from headrace_frontier.queues import DELAYED, READY, Item, Line, is_delayed, sequence_of
from headrace_frontier.seen import SEEN, Entry, seen_key, unpack
from headrace_frontier.tuning import Tuning
from headrace_runtime.streams.seams import StateView
from headrace_schemas.messages import Progress, State

_LAST = b"\xff" * 64
_TOGETHER = 500  # entries looked up in one read
_item = msgspec.msgpack.Decoder(Item).decode
_lease = msgspec.msgpack.Decoder(Lease).decode
_books = msgspec.msgpack.Decoder(Books).decode


def state_hash(view: StateView) -> str:
    """Of all entries in key order: two states are the same if and only if this is."""
    digest = hashlib.sha256()
    for key, value in view.scan(b"", _LAST):
        digest.update(b"%d %d " % (len(key), len(value)) + key + value)
    return digest.hexdigest()


class Audit:
    """One look at one partition. `differences` once; then `urls` and `hosts` say how much was looked at."""

    def __init__(self, view: StateView, tuning: Tuning | None = None) -> None:
        self._view, self._tuning = view, tuning or Tuning()
        self.urls = 0
        self.hosts = 0

    def differences(self, progress: Progress | None = None) -> Iterator[str]:
        """A line for each. `progress`: what the partition last told the world."""
        raw_counters, raw_budget = self._view.get([COUNTERS, BUDGET])
        counters = load_counters(raw_counters)
        leases = [_lease(raw) for _, raw in self._entries(LEASE)]
        seen = _Seen(counters)
        for _, raw in self._entries(SEEN):
            seen.add(unpack(raw))
        self.urls = sum(seen.states.values())
        yield from seen.differences()
        yield from self._leases(leases, counters)
        hosts = _Hosts()
        yield from self._hosts(hosts, {lease.host for lease in leases})
        yield from self._strays(hosts, seen)
        yield from self._due(hosts, counters)
        yield from _capped(hosts, seen, counters)
        books = Books() if raw_budget is None else _books(raw_budget)  # not written before something is counted
        yield from _budget(books, seen.counted, leases)
        if progress is not None:
            yield from _progress(progress, seen, counters)

    def _entries(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Without the prefix."""
        size = len(prefix)
        for key, value in self._view.scan(prefix, _after(prefix)):
            yield key[size:], value

    # ---- in flight -------------------------------------------------------------------------------

    def _leases(self, leases: list[Lease], counters: Counters) -> Iterator[str]:
        pages = [lease for lease in leases if lease.kind == "page"]
        yield from _same("in flight", counters.states[State.IN_FLIGHT], len(pages), "leases")
        yield from _same("tasks in flight", counters.tasks_in_flight, len(leases) - len(pages), "leases")
        yield from _at_most("leases", len(leases), self._tuning.partition_window)
        for name, count in Counter(lease.host for lease in leases).items():
            yield from _at_most(f"leases of {name}", count, self._tuning.host_window)
        for lease in leases:
            if not counters.oldest_lease <= lease.fetch_id <= counters.fetch_id:
                span = f"{counters.oldest_lease} to {counters.fetch_id}"
                yield f"lease {lease.fetch_id} is outside of {span}, where it would be looked for"
        asked = Counter(lease.item.url for lease in leases if lease.kind == "robots")
        for url, count in asked.items():
            yield from _at_most(f"leases of {url}", count, 1)
        raws = self._view.get([seen_key(lease.item.key) for lease in pages])
        for lease, raw in zip(pages, raws, strict=True):
            state = _state(raw)
            if state != State.IN_FLIGHT.name.lower():
                yield f"{lease.item.url} has lease {lease.fetch_id} and is {state}"

    # ---- queued ----------------------------------------------------------------------------------

    def _hosts(self, totals: "_Hosts", busy: set[str]) -> Iterator[str]:
        for name, raw in self._entries(HOST):
            host = load_host(raw)
            self.hosts += 1
            totals.add(host)
            if name.decode() != host.name:
                yield f"the record of {host.name} is under {name.decode()}"
            for prefix, title, line in ((READY, "ready", host.ready), (DELAYED, "delayed", host.delayed)):
                yield from self._queue(host, prefix, title, line, totals)
            if host.queued and not host.due and host.name not in busy:
                yield f"{host.name} has {host.queued} queued, and nothing will ever bring us back to it"

    def _queue(self, host: Host, prefix: bytes, title: str, line: Line, totals: "_Hosts") -> Iterator[str]:
        count = 0
        for some in _together(self._entries(prefix + host.id)):
            count += len(some)
            items = [_item(raw) for _, raw in some]
            raws = self._view.get([seen_key(item.key) for item in items])
            for (place, _), item, raw in zip(some, items, raws, strict=True):
                yield from _placed(host, line, place, item, raw)
        totals.placed += count
        yield from _same(f"{title} of {host.name}", line.count, count, "its queue")

    def _strays(self, hosts: "_Hosts", seen: "_Seen") -> Iterator[str]:
        """Every host's queue was walked: what is left in the queues is of no host."""
        places = sum(1 for prefix in (READY, DELAYED) for _ in self._entries(prefix))
        if places != hosts.placed:
            yield f"{places - hosts.placed} places in queues are of no host that is known"
        yield from _same("queued", seen.states[State.QUEUED], places, "the queues")

    def _due(self, hosts: "_Hosts", counters: Counters) -> Iterator[str]:
        count = 0
        for some in _together(self._entries(DUE)):
            count += len(some)
            raws = self._view.get([host_key(name.decode()) for _, name in some])
            for (key, name), raw in zip(some, raws, strict=True):
                at = int.from_bytes(key[:8], "big")
                host = None if raw is None else load_host(raw)
                if host is None or (host.due, host.id) != (at, key[8:]):
                    says = "is not known" if host is None else f"says {host.due}"
                    yield f"{name.decode()} is due at {at}, its record {says}"
        yield from _same("hosts that wait", counters.waiting_hosts, count, "the due index")
        yield from _same("hosts with a time", hosts.due, count, "the due index")
        yield from _same("open breakers", counters.breakers_open, hosts.distrusted, "the hosts")


class _Seen:
    """Sums over the URLs."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self.states: Counter[State] = Counter()
        self.failed: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.free = self.counted = 0

    def add(self, entry: Entry) -> None:
        self.states[entry.state] += 1
        self.counted += entry.counted
        if entry.state is State.FAILED:
            self.failed[entry.reason] += 1
        elif entry.state is State.REFUSED:
            self.refused[entry.reason] += 1
        elif entry.state is State.QUEUED:
            self.free += entry.counted

    def differences(self) -> Iterator[str]:
        kept = self._counters
        for state in State:
            yield from _same(state.name.lower(), kept.states[state], self.states[state], "the URLs")
        for word, counts, found in (
            ("failed", kept.failed_by, self.failed),
            ("refused", kept.refused_by, self.refused),
        ):
            for reason in sorted(counts.keys() | found.keys()):
                yield from _same(f"{word} ({reason})", counts.get(reason, 0), found[reason], "the URLs")
        yield from _same("queued and fetched before", kept.free, self.free, "the URLs")


class _Hosts:
    """Sums over the hosts."""

    def __init__(self) -> None:
        self.placed = self.due = self.distrusted = self.fetched = self.body_bytes = 0

    def add(self, host: Host) -> None:
        self.due += bool(host.due)
        self.distrusted += host.trial > 0
        self.fetched += host.fetched
        self.body_bytes += host.body_bytes


def _together(entries: Iterator[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    while some := list(islice(entries, _TOGETHER)):
        yield some


def _placed(host: Host, line: Line, place: bytes, item: Item, raw: bytes | None) -> Iterator[str]:
    entry = None if raw is None else unpack(raw)
    if entry is None or entry.state is not State.QUEUED:
        yield f"{item.url} is in the queue of {host.name} and is {_state(raw)}"
    elif (entry.place, entry.depth, entry.counted) != (place, item.depth, item.counted):
        yield f"{item.url} is not queued where, or as, its entry says"
    if place < line.head:
        yield f"{item.url} is before the head of its queue: it would never be met"
    if not is_delayed(place) and sequence_of(place) > host.sequence:
        yield f"{item.url} has number {sequence_of(place)} of {host.name}, which gave out {host.sequence}"


def _capped(hosts: _Hosts, seen: _Seen, counters: Counters) -> Iterator[str]:
    yield from _same("pages of all hosts", hosts.fetched, seen.counted, "the URLs")
    yield from _at_most("bytes of all hosts", hosts.body_bytes, counters.body_bytes)


def _budget(books: Books, counted: int, leases: Iterable[Lease]) -> Iterator[str]:
    purse = books.purse
    yield from _same("pages counted in the budget", purse.counted, counted, "the URLs")
    yield from _same("credits reserved", purse.reserved, sum(lease.credit for lease in leases), "leases")
    if purse.held < 0:
        yield f"credits held: {purse.held}"
    if purse.limit:
        known = purse.held + purse.reserved + purse.counted
        yield from _same("credits drawn", purse.drawn, known, "held, reserved and counted")


def _progress(progress: Progress, seen: _Seen, counters: Counters) -> Iterator[str]:
    yield from _same("discovered, as told", progress.discovered, sum(seen.states.values()), "the URLs")
    yield from _same("queued, as told", progress.queued, seen.states[State.QUEUED], "the URLs")
    yield from _same("tasks in flight, as told", progress.tasks_in_flight, counters.tasks_in_flight, "the counters")


def _same(what: str, kept: int, found: int, where: str) -> Iterator[str]:
    if kept != found:
        yield f"{what}: {kept:,} by the books, {found:,} by {where}"


def _at_most(what: str, found: int, most: int) -> Iterator[str]:
    if found > most:
        yield f"{what}: {found:,}, more than {most:,}"


def _state(raw: bytes | None) -> str:
    return "not known" if raw is None else unpack(raw).state.name.lower()


def _after(prefix: bytes) -> bytes:
    """The first key behind all that begin with `prefix`."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1])
