"""The plain second choice: httpx's own transport, one per host.

One pool over many hosts looks through every connection on every request (up to 80 times the cost), hence one each.
The name is resolved and vetted first, and the request made to that very address, with the name in Host and SNI.
"""

import asyncio
import ssl
from collections import OrderedDict
from collections.abc import AsyncIterator
from itertools import islice
from typing import Any

import httpx

from headrace_fetcher.faults import TransportFault, WentStale
from headrace_fetcher.resolver import Resolver
from headrace_fetcher.transport import KEEP_ALIVE, host_of, port_of
from headrace_runtime.clock import Clock

ADDRESSES = 3  # of one name, tried one after the other


class _Pool:
    """One host's transport, and how many requests are using it."""

    def __init__(self, transport: httpx.AsyncHTTPTransport) -> None:
        self.transport, self.users = transport, 0


class PerHostTransport(httpx.AsyncBaseTransport):
    def __init__(
        self,
        resolver: Resolver,
        ssl_context: ssl.SSLContext,
        clock: Clock,
        *,
        connect_timeout: float,
        read_timeout: float,
        idle: int,
    ) -> None:
        """`idle`: hosts whose connections are kept open."""
        self._resolver, self._ssl, self._clock, self._idle = resolver, ssl_context, clock, idle
        self._timeout = {"connect": connect_timeout, "read": read_timeout, "write": read_timeout, "pool": read_timeout}
        self._pools: OrderedDict[str, _Pool] = OrderedDict()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        addresses = await self._resolver.addresses(host_of(request.url), port_of(request.url))
        pool = self._pool(str(request.url))
        pool.users += 1
        try:
            while (spare := self._spare()) is not None:
                await spare.transport.aclose()
            return await self._any(pool, request, addresses[:ADDRESSES])
        except BaseException:
            pool.users -= 1
            raise

    async def aclose(self) -> None:
        pools, self._pools = self._pools, OrderedDict()
        for pool in pools.values():
            await pool.transport.aclose()

    async def _any(self, pool: _Pool, request: httpx.Request, addresses: tuple[str, ...]) -> httpx.Response:
        for more in range(len(addresses) - 1, -1, -1):
            try:
                return await self._one(pool, request, addresses[-1 - more])
            except TransportFault as fault:
                if fault.reason != "connect" or not more:
                    raise
        raise AssertionError("a resolver answers with at least one address")

    async def _one(self, pool: _Pool, request: httpx.Request, address: str) -> httpx.Response:
        trail = _Trail(self._clock)
        try:
            return await self._send(pool, request, address, trail)
        except (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError) as error:
            fault = translate(error)
            if not trail.fresh and fault.reason == "protocol":
                raise WentStale(fault.detail) from error
            raise fault from error
        except httpx.HTTPError as error:
            raise translate(error) from error

    async def _send(self, pool: _Pool, request: httpx.Request, address: str, trail: "_Trail") -> httpx.Response:
        extensions = {
            "target": request.extensions["target"],
            "timeout": self._timeout,
            "trace": trail,
            "sni_hostname": host_of(request.url).rstrip("."),
        }
        host = f"[{address}]" if ":" in address else address
        pinned = httpx.Request(
            request.method, request.url.copy_with(host=host), headers=request.headers, extensions=extensions
        )
        response = await pool.transport.handle_async_request(pinned)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        return httpx.Response(
            response.status_code,
            stream=_Stream(response.stream, pool),
            extensions={
                **response.extensions,
                "fields": response.headers.raw,
                "written": trail.written,
                "connect": trail.connect,
            },
        )

    def _pool(self, origin: str) -> _Pool:
        pool = self._pools.get(origin)
        if pool is None:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=1, keepalive_expiry=KEEP_ALIVE)
            pool = _Pool(httpx.AsyncHTTPTransport(verify=self._ssl, trust_env=False, limits=limits))
            self._pools[origin] = pool
        self._pools.move_to_end(origin)
        return pool

    def _spare(self) -> _Pool | None:
        """A pool to close, already out of the books, where there are too many; those in use stay."""
        over = len(self._pools) - self._idle
        for origin, pool in islice(self._pools.items(), max(0, over)):
            if not pool.users:
                return self._pools.pop(origin)
        return None


class _Trail:
    """httpcore's trace of one request: when it went out, and whether a connection was made for it."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._begun = clock, clock.monotonic()
        self.fresh = False
        self.connect = 0.0
        """Seconds until it had a connection; 0: a kept one."""
        self.written: float | None = None

    async def __call__(self, event: str, info: dict[str, Any]) -> None:
        if event == "connection.connect_tcp.started":
            self.fresh = True
        elif event.endswith(("connect_tcp.complete", "start_tls.complete")):
            self.connect = self._clock.monotonic() - self._begun
        elif event.endswith("send_request_headers.complete"):
            await asyncio.sleep(0)  # uvloop sends at the end of a turn, and a turn with many pages in it is long
            self.written = self._clock.monotonic()


class _Stream(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream, pool: _Pool) -> None:
        self._stream, self._pool, self._open = stream, pool, True

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._stream:
                yield chunk
        except httpx.HTTPError as error:
            raise translate(error) from error

    async def aclose(self) -> None:
        if self._open:
            self._open = False
            self._pool.users -= 1
            await self._stream.aclose()


def translate(error: httpx.HTTPError) -> TransportFault:
    text = str(error)[:200] or type(error).__name__
    match error:
        case httpx.ConnectTimeout() | httpx.PoolTimeout():
            return TransportFault("connect", "no connection in time")
        case httpx.TimeoutException():
            return TransportFault("timeout", "no byte in time")
        case httpx.ConnectError() if _has_cause(error, ssl.SSLError) and not _has_cause(error, ssl.SSLEOFError):
            return TransportFault("tls", text, retriable=False)
        case httpx.ConnectError():
            return TransportFault("connect", text)
        case httpx.RemoteProtocolError() if "Receive buffer too long" in text:
            return TransportFault("headers", text, retriable=False)
        case httpx.RemoteProtocolError():
            return TransportFault("protocol", f"not HTTP: {text}")
        case _:
            return TransportFault("protocol", text)


def _has_cause(error: BaseException | None, kind: type[BaseException]) -> bool:
    while error is not None:
        if isinstance(error, kind):
            return True
        error = error.__cause__ or error.__context__
    return False
