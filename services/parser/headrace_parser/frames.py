"""What the service and its worker processes say to each other, over a socket pair.

    length (u32, big endian) | msgpack       Hello →  ← (empty: ready)   then   Frame →  ← Reply   …

Beside the socket they share a `Board`: the worker notes there which page it is on. It costs no message, and it still
stands when the worker is dead.
"""

import mmap
import struct
from typing import NamedTuple

import msgspec
from msgspec import Struct

from headrace_parser.page import ParseLimits
from headrace_schemas.urls import CanonicalRules

PAGES = 8  # pages a frame: enough to make the cost of a message vanish, few enough to lose little with a worker
BYTES = 256 * 1024  # compressed bytes after which a frame is full
READY = b""
OUT_OF_MEMORY = 86  # exit code: the page under way hit the memory limit

_LENGTH = struct.Struct(">I")
_encoder = msgspec.msgpack.Encoder()


class Hello(Struct, frozen=True, gc=False, array_like=True):
    """All a worker is told, once."""

    parse: str
    """`module:function` with the signature of `headrace_parser.page.parse`."""
    limits: ParseLimits
    rules: CanonicalRules
    partitions: int
    politeness_key: str
    memory: int
    """MiB of address space it may grow by."""
    paths: tuple[str, ...] = ()
    """`sys.path` of the service, so that `parse` is found where the service found it."""


class Frame(Struct, frozen=True, gc=False, array_like=True):
    number: int
    revision: int
    """Of `crawl.control`; what is sent carries this or the page's own, whichever is newer."""
    at: float
    merge: bool
    """Links of all pages together, on the first one; otherwise each page has its own."""
    values: list[bytes]
    """Records of `pages.fetched`, as they came."""


class ParsedReply(Struct, frozen=True, gc=False, array_like=True):
    """What became of one page, ready to be sent."""

    verdict: str
    """As in `ParsedPage`, or not_modified | poison | too_new: then there is no `parsed`."""
    parsed: bytes = b""
    """The encoded `ParsedPage`."""
    links: list[tuple[int, bytes]] = []
    """Encoded `DiscoveredLinks`, each with its partition."""
    found: int = 0
    """Links on this page."""
    seconds: float = 0.0
    why: str = ""
    """Not empty: the record belongs in `dead.letters` too, and this is the reason."""


class Reply(Struct, frozen=True, gc=False, array_like=True):
    number: int
    pages: list[ParsedReply]


def packed(message: Struct | bytes) -> bytearray:
    """With its length in front; encoded in place, since a frame may hold megabytes."""
    buffer = bytearray(_LENGTH.size)
    if isinstance(message, bytes):
        buffer += message
    else:
        _encoder.encode_into(message, buffer, _LENGTH.size)
    _LENGTH.pack_into(buffer, 0, len(buffer) - _LENGTH.size)
    return buffer


class Unpacker:
    """Bytes as they come → whole messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._wanted = _LENGTH.size

    def feed(self, data: bytes) -> list[bytes]:
        self._buffer += data
        messages = []
        while len(self._buffer) >= self._wanted:
            end = _LENGTH.size + _LENGTH.unpack_from(self._buffer)[0]
            self._wanted = end
            if len(self._buffer) < end:
                break
            messages.append(bytes(memoryview(self._buffer)[_LENGTH.size : end]))
            del self._buffer[:end]
            self._wanted = _LENGTH.size
        return messages


class Position(NamedTuple):
    frame: int
    """0: no frame yet."""
    page: int
    """Index within it; `Board.BETWEEN` when on none."""


class Board:
    """A few shared bytes: written by the worker, read by the service when time is up or the worker is gone."""

    SIZE = 16
    BETWEEN = 0xFFFFFFFF
    _LAYOUT = struct.Struct("=QI")

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, self.SIZE)

    def write(self, frame: int, page: int) -> None:
        self._LAYOUT.pack_into(self._map, 0, frame, page)

    def read(self) -> Position:
        return Position(*self._LAYOUT.unpack_from(self._map))

    def close(self) -> None:
        self._map.close()
