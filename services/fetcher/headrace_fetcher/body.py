"""Content encodings undone while streaming, never more than the cap in memory.

A 2 KB answer may claim to be 2 GB: so every step yields small pieces and counts them, and a stacking of encodings is
counted at each layer (an inner layer could swallow the outer one's gigabytes without any output of its own).
"""

import zlib
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from typing import Protocol

import brotli  # type: ignore[import-untyped]
import zstandard

from headrace_fetcher.faults import BodyTooLarge, BrokenEncoding, NotWanted, TooSlow
from headrace_fetcher.memory import Share
from headrace_runtime.clock import Clock

PIECE = 64 * 1024  # bytes a step yields at once
LAYERS = 4  # encodings stacked; nobody honest sends more than two
ZSTD_WINDOW = 8 * 1024 * 1024  # RFC 9659: what a server may ask of a client
ZSTD_RATIO = 32 * 1024  # output bytes one input byte can cost: a 4-byte RLE block stands for 128 KiB
SNIFF = 512  # bytes that tell what a body is
GRACE = 5.0  # seconds before the least rate counts: a first byte may take its time


class Step(Protocol):
    def feed(self, data: bytes) -> Iterator[bytes]: ...

    def finish(self) -> None:
        """Raises `BrokenEncoding` if the data stopped in the middle."""
        ...


class _Inflate:
    """gzip (RFC 1952, members one after the other) and deflate (RFC 1950, or bare RFC 1951 as many servers send)."""

    def __init__(self, wbits: int) -> None:
        self._wbits, self._guess = wbits, wbits == zlib.MAX_WBITS
        self._step = zlib.decompressobj(wbits)
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._step.eof:
                if self._guess or not data.startswith(b"\x1f\x8b"):
                    return  # padding behind the last member is ignored, as browsers do
                self._step = zlib.decompressobj(self._wbits)
            piece = self._inflate(data)
            self._begun = True
            data = self._step.unconsumed_tail or self._step.unused_data
            if piece:
                yield piece

    def _inflate(self, data: bytes) -> bytes:
        try:
            return self._step.decompress(data, PIECE)
        except zlib.error as error:
            if self._begun or not self._guess:
                raise BrokenEncoding(str(error)) from None
        self._guess, self._begun = False, True
        self._wbits = -zlib.MAX_WBITS
        self._step = zlib.decompressobj(self._wbits)
        return self._inflate(data)

    def finish(self) -> None:
        if self._begun and not self._step.eof:
            raise BrokenEncoding("the compressed body is cut short")


class _Brotli:
    def __init__(self) -> None:
        self._step = brotli.Decompressor()
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._begun = True
        while data or not self._step.can_accept_more_data():
            if self._step.is_finished():
                return
            try:
                piece = self._step.process(data, output_buffer_limit=PIECE)
            except brotli.error as error:
                raise BrokenEncoding(str(error)) from None
            data = b""
            if piece:
                yield piece

    def finish(self) -> None:
        if self._begun and not self._step.is_finished():
            raise BrokenEncoding("the compressed body is cut short")


class _Zstd:
    """The library has no output limit, so input goes in slices small enough for the worst ratio there is."""

    def __init__(self, limit: int) -> None:
        self._slice = max(16, min(4096, limit // ZSTD_RATIO))
        self._zstd = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW)
        self._step: zstandard.ZstdDecompressionObj | None = None

    def feed(self, data: bytes) -> Iterator[bytes]:
        view = memoryview(data)
        while view:
            if self._step is None:
                self._step = self._zstd.decompressobj()
            part, view = view[: self._slice], view[self._slice :]
            try:
                piece = self._step.decompress(part)
            except zstandard.ZstdError as error:
                raise BrokenEncoding(str(error)) from None
            if self._step.eof:
                view = memoryview(self._step.unused_data + bytes(view))
                self._step = None
            if piece:
                yield piece

    def finish(self) -> None:
        if self._step is not None:
            raise BrokenEncoding("the compressed body is cut short")


class Decoder:
    """A stacking of encodings; `feed` yields the plain body piece by piece."""

    def __init__(self, encodings: str, limit: int) -> None:
        """`encodings`: the Content-Encoding header, in the order the server applied them."""
        names = [name.strip().lower() for name in encodings.split(",")]
        names = [name for name in names if name not in ("", "identity", "none")]
        if len(names) > LAYERS:
            raise BrokenEncoding(f"{len(names)} encodings stacked")
        self._limit = limit
        self._steps = [_step(name, limit) for name in reversed(names)]
        self._counts = [0] * (len(self._steps) + 1)

    def feed(self, data: bytes) -> Iterator[bytes]:
        return self._through(0, data)

    def _through(self, layer: int, data: bytes) -> Iterator[bytes]:
        self._counts[layer] += len(data)
        if self._counts[layer] > self._limit:
            raise BodyTooLarge(self._limit)
        if layer == len(self._steps):
            yield data
            return
        for piece in self._steps[layer].feed(data):
            yield from self._through(layer + 1, piece)

    def finish(self) -> None:
        for step in self._steps:
            step.finish()


def _step(name: str, limit: int) -> Step:
    match name:
        case "gzip" | "x-gzip":
            return _Inflate(zlib.MAX_WBITS | 16)
        case "deflate":
            return _Inflate(zlib.MAX_WBITS)
        case "br":
            return _Brotli()
        case "zstd":
            return _Zstd(limit)
        case _:
            raise BrokenEncoding(f"unknown content encoding {name[:40]!r}")


class Pace:
    """The least rate, averaged over the time spent waiting for the server; our own waits are not its fault."""

    def __init__(self, clock: Clock, least: int) -> None:
        """`least`: bytes a second; 0: any."""
        self._clock, self._least = clock, least
        self._from = clock.monotonic()

    def check(self, received: int) -> None:
        passed = self._clock.monotonic() - self._from
        if passed > GRACE and received < passed * self._least:
            raise TooSlow(f"{received} bytes in {passed:.0f} s")

    async def excuse(self, wait: Awaitable[None]) -> None:
        began = self._clock.monotonic()
        await wait
        self._from += self._clock.monotonic() - began


async def read_whole(
    raw: AsyncIterable[bytes],
    decoder: Decoder,
    share: Share,
    pace: Pace,
    wanted: Callable[[bytes], bool] | None = None,
) -> tuple[bytes, int]:
    """→ the decoded body, and how many bytes came over the wire. With `wanted`, its first bytes decide whether the
    rest is read (`NotWanted`)."""
    pieces: list[bytes] = []
    received = known = 0
    async for chunk in raw:
        received += len(chunk)
        pace.check(received)
        for piece in decoder.feed(chunk):
            if not share.grow(len(piece)):
                await pace.excuse(share.wait(len(piece)))
            pieces.append(piece)
            known += len(piece)
        if wanted is not None and known >= SNIFF:
            _ask(wanted, pieces)
            wanted = None
    decoder.finish()
    if wanted is not None and known:
        _ask(wanted, pieces)
    return (pieces[0] if len(pieces) == 1 else b"".join(pieces)), received


def _ask(wanted: Callable[[bytes], bool], pieces: list[bytes]) -> None:
    if not wanted(b"".join(pieces[:8])[:SNIFF]):
        raise NotWanted("no content type, and it does not begin like a page")


async def read_start(raw: AsyncIterable[bytes], decoder: Decoder, limit: int) -> tuple[bytes, int]:
    """As `read_whole`, but the first `limit` bytes are enough: the rest is not read and no fault (robots.txt)."""
    text = bytearray()
    received = 0
    async for chunk in raw:
        received += len(chunk)
        for piece in decoder.feed(chunk):
            text += piece
            if len(text) >= limit:
                return bytes(text[:limit]), received
    decoder.finish()
    return bytes(text), received
