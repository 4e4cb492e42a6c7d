"""The queued URLs of every host, in order, each host's beginning at a remembered head.

    q | host (8) | priority (u8) | depth (u16) | sequence (u64)  →  Item      ready, breadth first
    t | host (8) | due (u64, ms)               | sequence (u64)  →  Item      waiting for a time

Scans see committed state only, so what is pushed in this unit is met in the next one. They start at the head: a scan
from the start of a queue would pass a tombstone for every URL ever taken from it.
"""

import struct
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from headrace_frontier.seen import MAX_DEPTH
from headrace_runtime.streams.seams import StateView, Unit

READY, DELAYED = b"q", b"t"
_READY = struct.Struct(">BHQ")
_DELAYED = struct.Struct(">QQ")
FIRST, NORMAL = 0, 1
"""Priorities. First: what takes no credit (a spent budget must not hide it), and what was begun already."""

_encode = msgspec.msgpack.Encoder().encode


class Item(Struct, frozen=True, array_like=True):
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


_decode = msgspec.msgpack.Decoder(Item).decode


class Line(Struct, array_like=True):
    """One queue of one host, as its host record keeps it."""

    count: int = 0
    head: bytes = b""
    """No place in this queue is before it."""


def ready_place(priority: int, depth: int, sequence: int) -> bytes:
    return _READY.pack(priority, min(depth, MAX_DEPTH), sequence)


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
