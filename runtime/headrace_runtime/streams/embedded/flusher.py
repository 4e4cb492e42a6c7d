"""Group commit: many writes share one wait for the disk, and the event loop waits for none of them."""

import asyncio
from typing import Literal

from headrace_runtime.streams.embedded.database import Database

Sync = Literal["none", "group", "always"]
INTERVAL = 0.075  # seconds between two flushes: what a power cut may cost with `group`


class Flusher:
    """`wrote` after each write; `covered` by whoever must not answer before the disk has it."""

    def __init__(self, database: Database, sync: Sync) -> None:
        self.sync = sync
        self._database = database
        self._written = 0
        self._flushed = 0
        self._dirty = asyncio.Event()
        self._hurry = asyncio.Event()
        self._waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._task = None if sync == "none" else asyncio.create_task(self._run())

    def wrote(self) -> None:
        self._written += 1
        self._dirty.set()

    async def covered(self) -> None:
        """Returns once all that was written before the call would survive a power cut (`none`: at once)."""
        if self._task is None or self._flushed >= self._written:
            return
        if self._database.broken is not None:
            raise self._database.broken
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append((self._written, waiter))
        self._hurry.set()
        await waiter

    async def close(self) -> None:
        """The last flush is the caller's."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._dirty.wait()
            if self.sync == "group":
                await self._pause()
            self._dirty.clear()
            self._hurry.clear()
            until = self._written
            try:
                await asyncio.to_thread(self._database.sync)
            except Exception as error:
                self._fail(error)
                return
            self._flushed = until
            self._answer()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(INTERVAL):
                await self._hurry.wait()
        except TimeoutError:
            pass

    def _answer(self) -> None:
        waiting = self._waiters
        self._waiters = [(number, waiter) for number, waiter in waiting if number > self._flushed]
        for number, waiter in waiting:
            if number <= self._flushed and not waiter.done():
                waiter.set_result(None)

    def _fail(self, error: Exception) -> None:
        """`Database.broken` is set by now: the lanes hear of it with their next commit."""
        for _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(error)
        self._waiters.clear()
