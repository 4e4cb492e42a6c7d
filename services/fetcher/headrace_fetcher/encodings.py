"""Content encodings undone in steps, each bounded in what comes out of it and in what it costs.

A 2 KB answer may claim to be 2 GB, or be a million empty members one after the other: so a step takes a slice and
gives a small piece (an empty one where nothing came of it), members are counted, and so are the bytes between two
layers (an inner one could swallow the outer one's gigabytes without any output of its own).
"""

import zlib
from collections.abc import Iterator
from typing import Protocol

import brotli  # type: ignore[import-untyped]
import zstandard

from headrace_fetcher.faults import BodyTooLarge, BrokenEncoding

PIECE = 64 * 1024  # bytes a step yields at once; zstd a block, which is 128 KiB at the most
SLICE = 16 * 1024  # bytes a step takes at once
LAYERS = 2  # encodings stacked; nobody honest sends more
MEMBERS = 16 * 1024  # gzip members, or zstd frames and blocks, of one body: even an empty one costs microseconds
INFLATE_WINDOW = 64 * 1024  # with all else a decoder keeps (RFC 1951: 32 KiB)
BROTLI_WINDOW = 16 * 1024 * 1024  # RFC 7932; the larger ones of later drafts are not switched on
ZSTD_WINDOW = 8 * 1024 * 1024  # RFC 9659: what a server may ask of a client
ZSTD_HEADER = 18  # bytes of the longest header of a frame (RFC 8878 section 3.1.1.1)
NOTHING = frozenset({"", "identity", "none", "utf-8", "utf8", "iso-8859-1", "binary", "7bit", "8bit"})
"""What servers call a body that is as it is; some take the header for that of the charset, or of a mail."""

_MAGIC = b"\x1f\x8b"  # of a gzip member
_SKIPPED = range(0x184D2A50, 0x184D2A60)  # magic numbers of zstd frames that carry nothing (RFC 8878 section 3.1.2)


class Step(Protocol):
    window: int
    """Bytes it may keep of what went through it, whatever its input says."""

    def feed(self, data: bytes) -> Iterator[bytes]: ...

    def finish(self) -> None:
        """Raises `BrokenEncoding` if the data stopped in the middle."""
        ...


class _Members:
    """How many a body may have."""

    def __init__(self) -> None:
        self._left = MEMBERS

    def begin(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise BrokenEncoding(f"more than {MEMBERS} members")


class _Inflate:
    """gzip (RFC 1952, members one after the other) and deflate (RFC 1950, or bare RFC 1951 as many servers send)."""

    window = INFLATE_WINDOW

    def __init__(self, wbits: int) -> None:
        self._wbits, self._guess = wbits, wbits == zlib.MAX_WBITS
        self._step = zlib.decompressobj(wbits)
        self._members = _Members()
        self._start: bytes | None = b""
        """Too short yet to tell what it is the start of; None: that is known."""
        self._over = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._start is not None:
            data = self._start + data
            if len(data) < 2:
                self._start = data
                return
            self._start = None
            if self._guess and not _is_zlib(data):
                self._step = zlib.decompressobj(-zlib.MAX_WBITS)
        view = memoryview(data)
        for at in range(0, len(view), SLICE):
            part = view[at : at + SLICE]
            while part and not self._over:
                if self._step.eof and not self._another(part):
                    self._over = True
                    return
                try:
                    piece = self._step.decompress(part, PIECE)
                except zlib.error as error:
                    raise BrokenEncoding(str(error)) from None
                rest = self._step.unconsumed_tail or self._step.unused_data
                part = part[len(part) - len(rest) :]
                yield piece

    def _another(self, part: memoryview) -> bool:
        """Else it is padding behind the last member, ignored as browsers do."""
        if self._guess or not _MAGIC.startswith(part[:2]):
            return False
        self._members.begin()
        self._step = zlib.decompressobj(self._wbits)
        return True

    def finish(self) -> None:
        if self._start or (self._start is None and not self._step.eof):
            raise BrokenEncoding("the compressed body is cut short")


def _is_zlib(data: bytes) -> bool:
    """RFC 1950 section 2.2: the method, and a check of the first two bytes."""
    return data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0


class _Brotli:
    window = BROTLI_WINDOW

    def __init__(self) -> None:
        self._step = brotli.Decompressor()
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        for at in range(0, len(data), SLICE):
            part, piece, self._begun = data[at : at + SLICE], b"", True
            while part or piece or not self._step.can_accept_more_data():  # which it says with output left, too
                if self._step.is_finished():
                    return
                try:
                    piece = self._step.process(part, output_buffer_limit=PIECE)
                except brotli.error as error:
                    raise BrokenEncoding(str(error)) from None
                part = b""
                yield piece

    def finish(self) -> None:
        if self._begun and not self._step.is_finished():
            raise BrokenEncoding("the compressed body is cut short")


class _Zstd:
    """The library has no limit on what comes out: so it is given a block at a time (RFC 8878 section 3.1.1.2), which
    stands for 128 KiB at the most, whatever is in it."""

    window = ZSTD_WINDOW

    def __init__(self) -> None:
        self._zstd = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
        self._step: zstandard.ZstdDecompressionObj | None = None
        self._members = _Members()
        self._checksum = False
        self._left = 0
        """Bytes until the next header: of a frame, a block, or the checksum."""
        self._held = b""
        """Of a header that is not all here."""
        self._inside = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        view, at = memoryview(self._held + data), 0
        while at < len(view):
            if not self._left:
                self._left = self._unit(bytes(view[at : at + ZSTD_HEADER]))
                if not self._left:
                    break
            part = view[at : at + self._left]
            at, self._left = at + len(part), self._left - len(part)
            yield self._decompress(part)
        self._held = bytes(view[at:])

    def _unit(self, head: bytes) -> int:
        """Bytes up to the next header, this one included; 0: it is not all here."""
        if self._inside:
            return self._block(head)
        if len(head) < 8:  # a frame has at least nine
            return 0
        self._members.begin()
        if int.from_bytes(head[:4], "little") in _SKIPPED:
            return 8 + int.from_bytes(head[4:8], "little")
        try:
            size = zstandard.frame_header_size(head)
        except zstandard.ZstdError as error:
            raise BrokenEncoding(str(error)) from None
        self._step, self._inside, self._checksum = self._zstd.decompressobj(), True, bool(head[4] & 4)
        return size

    def _block(self, head: bytes) -> int:
        if len(head) < 3:
            return 0
        self._members.begin()
        field = int.from_bytes(head[:3], "little")
        last, kind, size = field & 1, field >> 1 & 3, field >> 3
        self._inside = not last
        return 3 + (1 if kind == 1 else size) + (4 if last and self._checksum else 0)

    def _decompress(self, part: memoryview) -> bytes:
        if self._step is None:
            return b""
        try:
            piece = self._step.decompress(part)
        except zstandard.ZstdError as error:
            raise BrokenEncoding(str(error)) from None
        if self._step.eof:
            self._step = None
        return piece

    def finish(self) -> None:
        if self._step is not None or self._left or self._held:
            raise BrokenEncoding("the compressed body is cut short")


class Decoder:
    """A stacking of encodings; `feed` yields the plain body piece by piece, and empty pieces between them: whoever
    reads it may stop for a moment at each."""

    def __init__(self, encodings: str, limit: int) -> None:
        """`encodings`: the Content-Encoding header, in the order the server applied them."""
        names = [name.strip().lower() for name in encodings.split(",")] if encodings else []
        names = [name for name in names if name not in NOTHING]
        if len(names) > LAYERS:
            raise BrokenEncoding(f"{len(names)} encodings stacked")
        self.limit = limit
        self._steps = [_step(name) for name in reversed(names)]
        self._counts = [0] * (len(self._steps) + 1)
        self.plain = not self._steps
        """There is nothing to undo."""
        self.windows = sum(step.window for step in self._steps)

    def feed(self, data: bytes) -> Iterator[bytes]:
        return self._through(0, data)

    def _through(self, layer: int, data: bytes) -> Iterator[bytes]:
        self._counts[layer] += len(data)
        if self._counts[layer] > self.limit:
            raise BodyTooLarge(self.limit)
        if layer == len(self._steps) or not data:
            yield data
            return
        for piece in self._steps[layer].feed(data):
            yield from self._through(layer + 1, piece)

    def finish(self) -> None:
        for step in self._steps:
            step.finish()


def _step(name: str) -> Step:
    match name:
        case "gzip" | "x-gzip":
            return _Inflate(zlib.MAX_WBITS | 16)
        case "deflate":
            return _Inflate(zlib.MAX_WBITS)
        case "br":
            return _Brotli()
        case "zstd":
            return _Zstd()
        case _:
            raise BrokenEncoding(f"unknown content encoding {name[:40]!r}")
