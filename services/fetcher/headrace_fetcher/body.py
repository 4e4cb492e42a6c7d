"""Bodies read to their end: undone under the cap, within the memory there is, no slower than the least rate."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable

from headrace_fetcher.encodings import Decoder
from headrace_fetcher.faults import NotWanted, TooSlow
from headrace_fetcher.memory import Share
from headrace_runtime.clock import Clock

SNIFF = 512  # bytes that tell what a body is
GRACE = 5.0  # seconds before the least rate counts: a first byte may take its time
TURN = 0.002  # seconds of decoding after which everything else has its turn


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
        async for piece in _in_turns(decoder, chunk):
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


async def _in_turns(decoder: Decoder, data: bytes) -> AsyncIterator[bytes]:
    """What is not done in a moment lets the rest of the process go on in between."""
    now = asyncio.get_running_loop().time
    until = now() + TURN
    for piece in decoder.feed(data):
        if piece:
            yield piece
        if now() > until:
            await asyncio.sleep(0)
            until = now() + TURN


def _ask(wanted: Callable[[bytes], bool], pieces: list[bytes]) -> None:
    if not wanted(b"".join(pieces[:8])[:SNIFF]):
        raise NotWanted("no content type, and it does not begin like a page")


async def read_start(raw: AsyncIterable[bytes], decoder: Decoder, limit: int) -> tuple[bytes, int]:
    """As `read_whole`, but the first `limit` bytes are enough: the rest is not read and no fault (robots.txt)."""
    text = bytearray()
    received = 0
    async for chunk in raw:
        received += len(chunk)
        async for piece in _in_turns(decoder, chunk):
            text += piece
            if len(text) >= limit:
                return bytes(text[:limit]), received
    decoder.finish()
    return bytes(text), received
