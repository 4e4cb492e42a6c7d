"""One bound over all the bodies being read in a process: a hundred servers may each send ten megabytes at once, packed
so that the windows of their decoders are larger still.

Who finds it full waits, and so does its server, since nothing is read meanwhile. The oldest reader never waits: it
alone is sure to end and to give back what the others wait for, so the bound may be passed by what one body takes.
"""

import asyncio
from types import TracebackType

from headrace_fetcher.faults import BodyTooLarge


class Memory:
    """Shared by all attempts; all calls on one event loop."""

    def __init__(self, limit: int) -> None:
        self._limit, self._used = limit, 0
        self._shares: dict[Share, None] = {}  # in the order of their coming
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def used(self) -> int:
        return self._used

    def share(self) -> "Share":
        return Share(self)

    def join(self, share: "Share") -> None:
        self._shares[share] = None

    def leave(self, share: "Share") -> None:
        del self._shares[share]
        self.give(share, share.held)

    def give(self, share: "Share", size: int) -> None:
        self._used -= size
        share.held -= size
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def grow(self, share: "Share", size: int) -> bool:
        """False: not now."""
        if share.held - share.borrowed + size > self._limit:
            raise BodyTooLarge(self._limit)
        return self.take(share, size)

    def take(self, share: "Share", size: int) -> bool:
        if self._used + size > self._limit and share is not next(iter(self._shares)):
            return False
        self._used += size
        share.held += size
        return True

    async def change(self) -> None:
        """Returns when a reader has left or given something back: there may be room now, or a new oldest."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future


class Share:
    """What one body holds; given back when the block ends, however it ends."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.held = 0
        self.borrowed = 0
        """That part of it which is no body, but goes into undoing one."""

    def __enter__(self) -> "Share":
        self._memory.join(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._memory.leave(self)

    def grow(self, size: int) -> bool:
        return self._memory.grow(self, size)

    async def wait(self, size: int) -> None:
        while not self._memory.grow(self, size):
            await self._memory.change()

    def shrink(self, size: int) -> None:
        self._memory.give(self, size)

    async def borrow(self, size: int) -> None:
        while not self._memory.take(self, size):
            await self._memory.change()
        self.borrowed += size

    def give_back(self, size: int) -> None:
        self.borrowed -= size
        self._memory.give(self, size)
