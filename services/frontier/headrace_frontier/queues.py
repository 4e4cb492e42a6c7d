"""The queued URLs of every host, in order, each host's beginning at a remembered head.

    q | host (8) | first (u8) | rank (u40) | sequence (u40)  →  Item      ready, best first
    t | host (8) | due (u64, ms) | sequence (u64)            →  Item      waiting for a time

The rank is by priority, then depth, then order of arrival, but a URL that waits gains on those found after it: its
rank is its sequence plus a fixed number for each step of priority and depth. So the best goes first, and nothing
waits for ever behind what is better and never ends.

Scans see committed state only, so what is pushed in this unit is met in the next one. They start at the head: a scan
from the start of a queue would pass a tombstone for every URL ever taken from it.
"""

import struct
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from headrace_runtime.streams.seams import StateView, Unit

READY, DELAYED = b"q", b"t"
_DELAYED = struct.Struct(">QQ")
FIRST, NORMAL = 0, 1
"""First: what takes no credit (a spent budget must not hide it), and what was begun already."""
STEP = 1_000
"""URLs of the same host, found later, that a URL of the next depth or priority lets go ahead of it."""
_DEPTHS = 16
"""Depths told apart within a priority."""
_NUMBER = 5  # bytes of a rank, and of a sequence

_encode = msgspec.msgpack.Encoder().encode


class Item(Struct, frozen=True, gc=False, array_like=True):
    """What a release needs to know of a queued URL."""

    url: str
    key: bytes
    depth: int
    hop: int = 0
    referrer: str = ""
    chain: tuple[str, ...] = ()
    attempt: int = 0
    """Attempts spent."""
    etag: str = ""
    last_modified: str = ""
    page_type: str = "page"
    counted: bool = False
    """Fetched before: takes no credit."""
    priority: int = 1
    """0 high, 1 medium, 2 low."""
    run: int = 0
    """As in its entry, so that what becomes of it can be written without reading that."""


_decode = msgspec.msgpack.Decoder(Item).decode


class Line(Struct, array_like=True, gc=False):
    """One queue of one host, as its host record keeps it."""

    count: int = 0
    head: bytes = b""
    """No place in this queue is before it."""


def ready_place(first: int, priority: int, depth: int, sequence: int) -> bytes:
    rank = sequence + STEP * (priority * _DEPTHS + min(depth, _DEPTHS - 1))
    return bytes((first,)) + rank.to_bytes(_NUMBER, "big") + sequence.to_bytes(_NUMBER, "big")


def sequence_of(place: bytes) -> int:
    """Of a place in a ready queue."""
    return int.from_bytes(place[-_NUMBER:], "big")


def delayed_place(due: float, sequence: int) -> bytes:
    return _DELAYED.pack(int(due * 1000), sequence)


def due_of(place: bytes) -> float:
    """Seconds since the epoch, of a place in a delayed queue."""
    return int.from_bytes(place[:8], "big") / 1000


def is_delayed(place: bytes) -> bool:
    return len(place) == _DELAYED.size


class Queue:
    """All hosts' queues of one kind. `begin` before each unit."""

    def __init__(self, prefix: bytes, view: StateView) -> None:
        self._prefix, self._view = prefix, view
        self._fresh: dict[bytes, bytes] = {}

    def begin(self) -> None:
        self._fresh.clear()

    def push(self, unit: Unit, host: bytes, line: Line, place: bytes, item: Item) -> None:
        unit.put(self._prefix + host + place, _encode(item))
        if line.count == 0 or place < line.head:
            line.head = place
        line.count += 1
        fresh = self._fresh.get(host)
        if fresh is None or place < fresh:
            self._fresh[host] = place

    def replace(self, unit: Unit, host: bytes, place: bytes, item: Item) -> None:
        unit.put(self._prefix + host + place, _encode(item))

    def get(self, unit: Unit, host: bytes, place: bytes) -> Item | None:
        raw = unit.get([self._prefix + host + place])[0]
        return None if raw is None else _decode(raw)

    def remove(self, unit: Unit, host: bytes, line: Line, place: bytes) -> None:
        unit.delete(self._prefix + host + place)
        line.count -= 1

    def walk(self, unit: Unit, host: bytes, line: Line) -> Iterator[tuple[bytes, Item]]:
        """Committed items from the head on, as this unit has left them."""
        if line.count == 0:
            return
        start = self._prefix + host
        size = len(start)
        for key, value in self._view.scan(start + line.head, _after(start)):
            if key in unit.writes:
                staged = unit.writes[key]
                if staged is None:
                    continue
                value = staged
            yield key[size:], _decode(value)

    def advance(self, host: bytes, line: Line, kept: bytes | None) -> None:
        """`kept` is the first committed item left, None if there is none; what this unit pushed may be before it."""
        fresh = self._fresh.get(host)
        if kept is None or fresh is None:
            line.head = kept or fresh or b""
        else:
            line.head = min(kept, fresh)


def _after(prefix: bytes) -> bytes:
    """The first key behind all that begin with `prefix`."""
    trimmed = prefix.rstrip(b"\xff")
    return trimmed[:-1] + bytes([trimmed[-1] + 1])
