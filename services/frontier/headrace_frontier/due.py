"""When each host may be asked next: one entry per host that has something to release or to wait for.

    d | due (u64, ms) | host (8)  →  name

Served from the front and put back behind: round-robin over the hosts that are due.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from headrace_frontier.counters import Counters
from headrace_frontier.hosts import Host
from headrace_runtime.streams.seams import StateView, Unit

DUE = b"d"
_END = b"e"
_TOGETHER = 64  # hosts read at once


class DueIndex:
    def __init__(self, view: StateView, counters: Counters) -> None:
        self._view, self._counters = view, counters
        self._head = DUE
        """No entry is before it: a scan from the start would pass a tombstone for every host ever served."""
        self._fresh: bytes | None = None
        """The first entry made or confirmed in this unit: the head must not pass it."""

    def begin(self) -> None:
        self._fresh = None

    def schedule(self, unit: Unit, host: Host, at: float | None) -> None:
        """`host` is due at `at`, or not at all. The caller marks `host` as changed."""
        due = 0 if at is None else max(1, int(at * 1000))
        if due:
            key = _key(due, host.id)
            self._head = min(self._head, key)
            self._fresh = key if self._fresh is None else min(self._fresh, key)
        if due == host.due:
            return
        if host.due:
            unit.delete(_key(host.due, host.id))
            self._counters.waiting_hosts -= 1
        if due:
            unit.put(key, host.name.encode())
            self._counters.waiting_hosts += 1
        host.due = due

    def due(self, unit: Unit, now: float, expect: Callable[[list[str]], None] = lambda names: None) -> Iterator[str]:
        """Hosts whose time has come, longest waiting first. The caller schedules each anew as it takes it. `expect` is
        told of those about to come, so that what is known of them can be read in one go."""
        rows = self._view.scan(self._head, _key(int(now * 1000) + 1, b""))
        while some := [(key, name.decode()) for key, name in islice(rows, _TOGETHER) if key not in unit.writes]:
            expect([name for _, name in some])
            for key, name in some:
                yield name
                self._head = key if self._fresh is None else min(key, self._fresh)

    def next(self, unit: Unit) -> tuple[float, str] | None:
        """When the first host is due and which it is, of those committed and left alone in this unit."""
        for key, name in self._view.scan(self._head, _END):
            if key not in unit.writes:
                return _time(key), name.decode()
        return None


def _key(due: int, host: bytes) -> bytes:
    return DUE + due.to_bytes(8, "big") + host


def _time(key: bytes) -> float:
    return int.from_bytes(key[1:9], "big") / 1000
