"""Which pyreqwest client asks which host: clients that can reach nothing but addresses vetted before.

A client takes its names and addresses (pins) only when it is built, and a name it has no pin for it would look up by
itself, unseen. So a client serves the hosts it was built for and no other. Building one costs some 5 ms: new hosts are
gathered for a moment and share one, a *generation*. A host stays with its generation, and so with its kept connection,
until its address changes; a generation that nobody has used for as long as connections are kept is closed.
"""

import asyncio
from collections.abc import Callable, Mapping

from pyreqwest.client import Client

from headrace_fetcher.transport import KEEP_ALIVE
from headrace_runtime.clock import Clock

GATHER = 0.01  # seconds that new hosts are gathered, for each generation alive: so neither CPU nor memory runs away

Build = Callable[[Mapping[str, str]], Client]
"""Host → address, to a client."""


class Generation:
    """One client and its pins; `users` are the requests and answers that still need it."""

    def __init__(self, client: Client, pins: dict[str, str], now: float) -> None:
        self.client, self.pins, self.users, self.used_at = client, pins, 0, now


class Generations:
    """All calls on one event loop."""

    def __init__(self, build: Build, clock: Clock) -> None:
        self._build, self._clock = build, clock
        self._alive: list[Generation] = []
        self._home: dict[str, Generation] = {}
        self._wanted: dict[str, str] = {}
        self._next: asyncio.Task[Generation] | None = None

    @property
    def alive(self) -> int:
        return len(self._alive)

    async def take(self, host: str, addresses: tuple[str, ...]) -> Generation:
        """One that reaches `host` at one of `addresses`; to be given back with `release`."""
        home = self._home.get(host)
        while home is None or home.pins[host] not in addresses:
            self._wanted.setdefault(host, addresses[0])
            if self._wanted[host] not in addresses:
                self._wanted[host] = addresses[0]
            if self._next is None:
                self._next = asyncio.create_task(self._new())
            home = await asyncio.shield(self._next)
            if host not in home.pins:  # asked for while that one was already being built
                home = None
        home.users += 1
        return home

    async def release(self, generation: Generation) -> None:
        generation.users -= 1
        generation.used_at = self._clock.monotonic()
        for old in self._outlived():
            await old.client.close()

    def move(self, host: str, addresses: tuple[str, ...]) -> None:
        """The address did not answer: the next request goes to the one after it."""
        home = self._home.get(host)
        if home is not None and len(addresses) > 1 and (failed := home.pins[host]) in addresses:
            del self._home[host]
            self._wanted[host] = addresses[(addresses.index(failed) + 1) % len(addresses)]

    async def close(self) -> None:
        if self._next is not None:
            self._next.cancel()
        alive, self._alive = self._alive, []
        self._home.clear()
        for generation in alive:
            await generation.client.close()

    async def _new(self) -> Generation:
        try:
            await asyncio.sleep(GATHER * (1 + len(self._alive)))
            pins, self._wanted = self._wanted, {}
            generation = Generation(self._build(pins), pins, self._clock.monotonic())
        finally:
            self._next = None
        self._alive.append(generation)
        for host in pins:
            self._home[host] = generation
        return generation

    def _outlived(self) -> list[Generation]:
        """Those that can be closed, already out of the books."""
        before = self._clock.monotonic() - KEEP_ALIVE
        if not self._alive or all(one.users or one.used_at >= before for one in self._alive):
            return []
        old = [one for one in self._alive if not one.users and one.used_at < before]
        self._alive = [one for one in self._alive if one not in old]
        for generation in old:
            for host in generation.pins:
                if self._home.get(host) is generation:
                    del self._home[host]
        return old
