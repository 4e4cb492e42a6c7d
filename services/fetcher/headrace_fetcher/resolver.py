"""Names → addresses that may be reached. Resolved once, vetted, and connected to as they are: a second look-up could
answer differently (DNS rebinding)."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable
from functools import lru_cache

from headrace_fetcher.faults import AddressRefused, TransportFault
from headrace_fetcher.lookups import Lookups
from headrace_fetcher.vetting import Vetting
from headrace_runtime.clock import Clock
from headrace_schemas.urls import is_address

_is_address = lru_cache(maxsize=16_384)(is_address)  # asked before every request


class Resolver:
    """Shared by all requests of the process. Equal look-ups at the same time are one."""

    def __init__(
        self, vetting: Vetting, clock: Clock, lookups: Lookups, *, ttl: float = 300.0, size: int = 20_000
    ) -> None:
        """`ttl`: seconds an answer is believed; `getaddrinfo` does not tell the record's own."""
        self._vetting, self._clock, self._ttl, self._size = vetting, clock, ttl, size
        self._known: OrderedDict[str, tuple[float, asyncio.Future[tuple[str, ...]]]] = OrderedDict()
        self._lookups = lookups

    def unknown(self, host: str) -> Awaitable[tuple[str, ...]] | None:
        """Begins to look up a name of which nothing is known, and is done when something is. An answer that is merely
        old is asked for anew where a connection is made."""
        host = host.strip("[]")
        if _is_address(host):
            return None
        known = self._known.get(host)
        if known is None:
            known = self._ask(host, self._clock.monotonic())
        return None if known[1].done() else asyncio.shield(known[1])

    async def addresses(self, host: str, port: int) -> tuple[str, ...]:
        """At least one, all allowed, at that port. `TransportFault("dns")` or `AddressRefused` otherwise."""
        host = host.strip("[]")
        if _is_address(host):
            self._vetting.check(host, port)
            return (host,)
        now = self._clock.monotonic()
        known = self._known.get(host)
        if known is None or known[0] <= now:
            known = self._ask(host, now)
        answer = known[1]
        return self._allowed(host, port, answer.result() if answer.done() else await asyncio.shield(answer))

    async def close(self) -> None:
        for _, answer in self._known.values():
            answer.cancel()
        self._known.clear()

    def _ask(self, host: str, now: float) -> tuple[float, asyncio.Future[tuple[str, ...]]]:
        answer = asyncio.ensure_future(self._look_up(host))
        answer.add_done_callback(lambda done: self._forget_failure(host, done))
        self._known[host] = (now + self._ttl, answer)
        self._known.move_to_end(host)
        if len(self._known) > self._size:
            self._known.popitem(last=False)
        return self._known[host]

    async def _look_up(self, host: str) -> tuple[str, ...]:
        found = await self._lookups.ask(host)
        if not found:
            raise TransportFault("dns", f"{host} has no address", retriable=False)
        return found

    def _forget_failure(self, host: str, answer: "asyncio.Future[tuple[str, ...]]") -> None:
        """A failure is told to those who waited for it, and not kept: the frontier decides when to ask again."""
        failed = answer.cancelled() or answer.exception() is not None
        if failed and self._known.get(host, (0.0, None))[1] is answer:
            del self._known[host]

    def _allowed(self, host: str, port: int, found: tuple[str, ...]) -> tuple[str, ...]:
        allowed, refused = [], None
        for address in found:
            try:
                self._vetting.check(address, port)
                allowed.append(address)
            except AddressRefused as error:
                refused = error
        if not allowed:
            raise AddressRefused(f"{host}: {refused}")
        return tuple(allowed)
