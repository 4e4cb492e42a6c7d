"""Bodies read to their end: undone under the cap, within the memory there is, no slower than the least rate."""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable

from headrace_fetcher.encodings import Decoder
from headrace_fetcher.faults import BodyTooLarge, NotWanted, TooSlow
from headrace_fetcher.memory import Share
from headrace_runtime.clock import Clock

SNIFF = 512  # bytes that tell what a body is
GRACE = 5.0  # seconds before the least rate counts: a first byte may take its time
TURN = 0.002  # seconds of decoding after which everything else has its turn

Wanted = Callable[[bytes], bool]


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


async def read(
    raw: AsyncIterable[bytes],
    decoder: Decoder,
    share: Share,
    pace: Pace,
    *,
    wanted: Wanted | None = None,
    enough: int | None = None,
) -> tuple[bytes, int]:
    """→ the decoded body, and how many bytes came over the wire. With `wanted`, its first bytes decide whether it is
    kept (`NotWanted`). With `enough`, so many bytes are: the rest is not read and no fault (robots.txt).

    An encoded body is undone when it is here: a decoder has a window of megabytes, and a slow server would have us
    keep it for as long as it likes."""
    data, received = await _arrive(raw, share, pace, decoder.limit, wanted if decoder.plain else None, enough)
    if not decoder.plain:
        cut = enough is not None and received >= enough
        data = await _unpack(decoder, data, share, wanted, enough, cut=cut)
    return data[:enough], received


async def _arrive(
    raw: AsyncIterable[bytes], share: Share, pace: Pace, limit: int, wanted: Wanted | None, enough: int | None
) -> tuple[bytes, int]:
    pieces: list[bytes] = []
    received = 0
    try:
        async for chunk in raw:
            received += len(chunk)
            pace.check(received)
            if received > limit:
                raise BodyTooLarge(limit)
            if not share.grow(len(chunk)):
                await pace.excuse(share.wait(len(chunk)))
            pieces.append(chunk)
            if wanted is not None and received >= SNIFF:
                _ask(wanted, pieces)
                wanted = None
            if enough is not None and received >= enough:
                break
    except BaseException:
        pieces.clear()  # a fault stays with its connection, and keeps what is here until the garbage collector comes
        raise
    if wanted is not None and received:
        _ask(wanted, pieces)
    return _joined(pieces), received


async def _unpack(
    decoder: Decoder, data: bytes, share: Share, wanted: Wanted | None, enough: int | None, *, cut: bool
) -> bytes:
    """`cut`: it may well end in the middle. What is not done in a moment lets the rest of the process go on."""
    now, pieces, size = asyncio.get_running_loop().time, [], 0
    await share.borrow(decoder.windows)
    try:
        until = now() + TURN
        for piece in decoder.feed(data):
            if piece:
                if not share.grow(len(piece)):
                    await share.wait(len(piece))
                pieces.append(piece)
                size += len(piece)
                if wanted is not None and size >= SNIFF:
                    _ask(wanted, pieces)
                    wanted = None
                if enough is not None and size >= enough:
                    cut = True
                    break
            if now() > until:
                await asyncio.sleep(0)
                until = now() + TURN
        if not cut:
            decoder.finish()
    finally:
        share.give_back(decoder.windows)
    if wanted is not None and size:
        _ask(wanted, pieces)
    share.shrink(len(data))
    return _joined(pieces)


def _ask(wanted: Wanted, pieces: list[bytes]) -> None:
    if not wanted(b"".join(pieces[:SNIFF])[:SNIFF]):
        raise NotWanted("no content type, and it does not begin like a page")


def _joined(pieces: list[bytes]) -> bytes:
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
