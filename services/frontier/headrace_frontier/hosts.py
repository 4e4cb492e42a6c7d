"""What is known of a host (a politeness key): its queues, its window, its health."""

import math
from collections import OrderedDict
from collections.abc import Collection

import msgspec
import xxhash
from msgspec import Struct

from headrace_frontier.queues import Line
from headrace_runtime.streams.seams import Unit

HOST = b"h"
_SMOOTH = 0.3  # weight of the newest measurement: follows a change within about five pages
_encode = msgspec.msgpack.Encoder().encode


class Host(Struct, array_like=True, gc=False):
    """Mutable, owned by the cache below; written once per unit if touched."""

    name: str
    id: bytes
    """Eight bytes of hash: what stands for the name in keys of queues."""
    ready: Line = msgspec.field(default_factory=Line)
    delayed: Line = msgspec.field(default_factory=Line)
    due: int = 0
    """Milliseconds under which it stands in the due index; 0: it does not."""
    window: int = 1
    """W_h: tasks that may be released and not answered."""
    turnaround: float = 0.0
    """Seconds from release to result less the wait for the host's turn, smoothed."""
    latency: float = 0.0
    """Seconds a request takes, smoothed."""
    not_before: float = 0.0
    """It asked to be left alone until then."""
    failures: int = 0
    """In a row."""
    opened: int = 0
    """Times the breaker opened since the last success."""
    cooldown_until: float = 0.0
    given_up: int = 0
    """Run under which it was given up; 0: it was not."""
    refusals: int = 0
    """Answers of 403 and 429 in a row."""
    trial: int = 0
    """Half-open: successes it still owes before it is trusted again; 0: the breaker is closed (or open)."""
    sequence: int = 0
    """Last number given to one of its queued URLs: first come, first served within a rank."""
    fetched: int = 0
    """Pages fetched for the first time: what `limits.host_pages` counts."""
    body_bytes: int = 0
    """Of their bodies: what `limits.host_bytes` counts."""
    full: int = 0
    """The `limits.host_bytes` under which a page did not fit into what was left; 0: none yet."""
    origin: str = ""
    """The origin that was last asked for a page: read ahead with it."""
    why: str = ""
    """What it waits for until `due`: breaker | retry_after | robots | retry; empty: only its turn."""

    @property
    def queued(self) -> int:
        return self.ready.count + self.delayed.count

    @property
    def held_until(self) -> float:
        return max(self.not_before, self.cooldown_until)

    def next_sequence(self) -> int:
        self.sequence += 1
        return self.sequence

    def measured(self, turnaround: float, latency: float, delay: float, connections: int, most: int) -> None:
        """Sets W_h to just enough that the fetcher never waits for the next task of this host."""
        if not math.isfinite(turnaround):
            return
        self.turnaround = _smoothed(self.turnaround, max(0.0, turnaround))
        self.latency = _smoothed(self.latency, max(0.0, latency))
        pace = max(delay, self.latency / connections, 0.001)
        self.window = min(most, max(1, math.floor(self.turnaround / pace) + 1))


def _smoothed(old: float, new: float) -> float:
    return new if old == 0.0 else old + _SMOOTH * (new - old)


def host_key(name: str) -> bytes:
    return HOST + name.encode()


def host_id(name: str) -> bytes:
    return xxhash.xxh3_64_digest(name.encode())


_decode = msgspec.msgpack.Decoder(Host).decode


def load(raw: bytes) -> Host:
    return _decode(raw)


class Hosts:
    """Decoded host records, the most recently used ones. Changed ones are written by `flush`, once per unit."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._cache: OrderedDict[str, Host] = OrderedDict()
        self._changed: dict[str, Host] = {}

    def fetch(self, unit: Unit, names: Collection[str]) -> list[Host]:
        """Reads those not at hand in one go."""
        missing = [name for name in names if name not in self._cache]
        for name, raw in zip(missing, unit.get([host_key(name) for name in missing]), strict=True):
            self._cache[name] = Host(name, host_id(name)) if raw is None else load(raw)
        return [self._cache[name] for name in names]

    def get(self, unit: Unit, name: str) -> Host:
        host = self._cache.get(name)
        if host is None:
            self.fetch(unit, (name,))
            return self._cache[name]
        self._cache.move_to_end(name)
        return host

    def change(self, host: Host) -> None:
        self._changed[host.name] = host

    def flush(self, unit: Unit) -> list[Host]:
        """→ the hosts written."""
        changed = list(self._changed.values())
        for host in changed:
            unit.put(host_key(host.name), _encode(host))
        self._changed.clear()
        while len(self._cache) > self._most:
            self._cache.popitem(last=False)
        return changed
