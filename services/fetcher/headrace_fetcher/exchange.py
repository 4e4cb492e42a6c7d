"""A request that was sent over a connection, and what has come of its answer: what its reader waits for."""

import asyncio
from typing import TYPE_CHECKING

from headrace_fetcher.faults import TransportFault
from headrace_runtime.clock import Clock

if TYPE_CHECKING:
    from headrace_fetcher.connection import Connection


class Exchange:
    """The connection says what comes, the reader asks for it."""

    __slots__ = ("_clock", "_connection", "_waiter", "body", "complete", "error", "fields", "held", "status", "written")

    def __init__(self, connection: "Connection", clock: Clock) -> None:
        self._connection, self._clock = connection, clock
        self._waiter: asyncio.Future[None] | None = None
        self.status = 0
        """0: its head has not come yet."""
        self.fields: list[tuple[bytes, bytes]] = []
        self.body: list[bytes] = []
        self.held = 0
        """Bytes of `body`."""
        self.complete = False
        self.error: TransportFault | None = None
        self.written = 0.0
        """When it was certainly on the wire; 0: not yet."""

    def sent(self) -> None:
        """Called one turn of the loop after the request was written: uvloop sends at the end of a turn, and a turn
        with many pages in it is long."""
        self.written = self._clock.monotonic()

    async def head(self) -> None:
        while not self.status:
            await self._more()

    async def piece(self) -> bytes:
        """What has come of the body; empty at its end."""
        while not self.body:
            if self.complete:
                return b""
            await self._more()
        body, self.body, self.held = self.body, [], 0
        self._connection.read(self)
        return body[0] if len(body) == 1 else b"".join(body)

    def leave(self) -> None:
        """Whatever is still to come is of no use, and neither is the connection it would come over."""
        if not self.complete:
            self._connection.abort()

    def fail(self, error: TransportFault) -> None:
        if not self.complete and self.error is None:
            self.error = error
            self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def waiting(self) -> bool:
        return self._waiter is not None

    async def _more(self) -> None:
        if self.error is not None:
            raise self.error
        self._waiter = asyncio.get_running_loop().create_future()
        self._connection.heard_at = self._clock.monotonic()
        try:
            await self._waiter
        finally:
            self._waiter = None
