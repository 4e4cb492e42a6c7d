"""Counts everything in a state anew and compares: what the frontier keeps by adding and subtracting must be true."""

from collections import Counter
from collections.abc import Iterable

import msgspec

from headrace_frontier.budget import BUDGET, Books
from headrace_frontier.counters import COUNTERS, Counters, load
from headrace_frontier.hosts import Host
from headrace_frontier.leases import Lease
from headrace_frontier.queues import Item
from headrace_frontier.seen import Entry, unpack
from headrace_frontier.tuning import Tuning
from headrace_runtime.streams.memory import MemoryState
from headrace_schemas.messages import Progress, State


def scan(state: MemoryState, prefix: bytes) -> list[tuple[bytes, bytes]]:
    return [(key[1:], value) for key, value in state.scan(prefix, bytes([prefix[0] + 1]))]


def audit(state: MemoryState, progress: Progress | None, tuning: Tuning) -> None:
    counters = load(state.get([COUNTERS])[0])
    entries = {key: unpack(raw) for key, raw in scan(state, b"s")}
    states = Counter(entry.state for entry in entries.values())
    assert {s: states[s] for s in State} == {s: counters.states[s] for s in State}
    assert _by_reason(entries.values(), State.FAILED) == counters.failed_by
    assert _by_reason(entries.values(), State.REFUSED) == counters.refused_by
    assert counters.free == sum(e.counted for e in entries.values() if e.state is State.QUEUED)
    leases = [msgspec.msgpack.decode(raw, type=Lease) for _, raw in scan(state, b"f")]
    _leases(leases, entries, counters, tuning)
    _queues(state, entries, counters, {lease.host for lease in leases})
    raw = state.get([BUDGET])[0]
    if raw is not None:
        books = msgspec.msgpack.decode(raw, type=Books)
        assert books.purse.counted == sum(entry.counted for entry in entries.values())
        assert books.purse.reserved == sum(lease.credit for lease in leases)
        assert books.purse.held >= 0
        if books.purse.limit:
            assert books.purse.drawn == books.purse.held + books.purse.reserved + books.purse.counted
    if progress is not None:
        assert progress.discovered == len(entries)
        assert progress.queued == states[State.QUEUED]
        assert progress.tasks_in_flight == counters.tasks_in_flight


def _by_reason(entries: Iterable[Entry], state: State) -> dict[str, int]:
    return dict(Counter(e.reason for e in entries if e.state is state))


def _leases(leases: list[Lease], entries: dict[bytes, Entry], counters: Counters, tuning: Tuning) -> None:
    assert len(leases) <= tuning.partition_window
    assert all(lease.fetch_id >= counters.oldest_lease for lease in leases)
    pages = [lease for lease in leases if lease.kind == "page"]
    assert len(pages) == counters.states[State.IN_FLIGHT]
    assert len(leases) - len(pages) == counters.tasks_in_flight
    assert all(entries[lease.item.key].state is State.IN_FLIGHT for lease in pages)
    assert max(Counter(lease.host for lease in leases).values(), default=0) <= tuning.host_window
    robots = [lease.item.url for lease in leases if lease.kind == "robots"]
    assert len(robots) == len(set(robots))


def _queues(state: MemoryState, entries: dict[bytes, Entry], counters: Counters, busy: set[str]) -> None:
    """Every queued URL is in one queue, where its entry says; no head hides anything; each host is due at most once,
    and no host with a queue is forgotten: it is due some time, or a result will come."""
    hosts = {h.id: h for h in (msgspec.msgpack.decode(raw, type=Host) for _, raw in scan(state, b"h"))}
    queued = 0
    for prefix, name in ((b"q", "ready"), (b"t", "delayed")):
        found: Counter[bytes] = Counter()
        for key, raw in scan(state, prefix):
            host, place = hosts[key[:8]], key[8:]
            item = msgspec.msgpack.decode(raw, type=Item)
            entry = entries[item.key]
            assert (entry.state, entry.place, entry.depth) == (State.QUEUED, place, item.depth)
            assert place >= getattr(host, name).head
            found[host.id] += 1
        assert all(getattr(host, name).count == found[id_] for id_, host in hosts.items())
        queued += found.total()
    assert queued == counters.queued
    due = [(int.from_bytes(key[:8], "big"), raw.decode()) for key, raw in scan(state, b"d")]
    times = {name: at for at, name in due}
    assert sorted(name for _, name in due) == sorted(host.name for host in hosts.values() if host.due)
    assert all(host.due == times[host.name] for host in hosts.values() if host.due)
    assert len(due) == counters.waiting_hosts
    assert all(host.due or host.name in busy for host in hosts.values() if host.queued)
