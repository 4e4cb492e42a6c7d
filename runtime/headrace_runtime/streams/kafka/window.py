"""Out of order in, prefix out: what of one partition was received, what is done, what may be committed."""

import base64
import binascii
from collections import deque

SPAN = 8_192
"""Offsets between the oldest record not done and the newest received at which intake stops."""
_BITMAP_BYTES = 2_250
"""3,000 characters of base64: brokers take 4,096 (`offset.metadata.max.bytes`)."""


class Window:
    """One input partition of one lane. Offsets have gaps (markers, compaction): nothing here assumes +1."""

    def __init__(self, done: set[int] | None = None) -> None:
        self._order: deque[int] = deque()
        self._done: set[int] = done or set()
        """Finished offsets that the prefix has not passed, those from before a restart included."""
        self._newest = -1

    def receive(self, offset: int) -> bool:
        """False if it was done before a restart: not to be done again."""
        self._order.append(offset)
        self._newest = offset
        return offset not in self._done

    def finish(self, offset: int) -> None:
        self._done.add(offset)

    @property
    def next(self) -> int | None:
        """The oldest offset that is received and not done; None: all is done."""
        order, done = self._order, self._done
        while order and order[0] in done:
            done.discard(order.popleft())
        return order[0] if order else None

    @property
    def full(self) -> bool:
        oldest = self.next
        return oldest is not None and self._newest - oldest >= SPAN

    def bitmap(self, start: int) -> str:
        """The offsets done beyond `start`, for the metadata of a commit at `start`: a restart repeats little."""
        bits = bytearray()
        for offset in sorted(self._done):
            at, bit = divmod(offset - start, 8)
            if at >= _BITMAP_BYTES:
                break
            if at >= 0:
                bits.extend(bytes(at + 1 - len(bits)))
                bits[at] |= 1 << bit
        return base64.b64encode(bits).decode()


def done_beyond(start: int, bitmap: str) -> set[int]:
    """What `Window.bitmap` wrote. Metadata that is not ours means nothing is known to be done."""
    try:
        bits = base64.b64decode(bitmap or "", validate=True)
    except (binascii.Error, ValueError):
        return set()
    return {start + 8 * at + bit for at, byte in enumerate(bits) for bit in range(8) if byte >> bit & 1}
