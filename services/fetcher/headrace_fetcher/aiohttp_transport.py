"""httpx's transport seam over one aiohttp session: the cheapest client here that lets every connection be vetted.

aiohttp calls custom resolvers for names only, so the socket factory vets too: it sees the very address that is
connected to, IP literals included.
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from functools import lru_cache
from typing import Any
from weakref import WeakSet

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from headrace_fetcher.faults import TransportFault, WentStale
from headrace_fetcher.resolver import Resolver
from headrace_fetcher.transport import KEEP_ALIVE, Kept
from headrace_fetcher.vetting import Vetting
from headrace_runtime.clock import Clock

LINE, FIELD = 16 * 1024, 32 * 1024  # longest status line and header: some sites' security policies are long


class AiohttpTransport(httpx.AsyncBaseTransport):
    """One for the process. The session is opened with the first request, since it belongs to the running loop."""

    def __init__(
        self,
        resolver: Resolver,
        vetting: Vetting,
        ssl_context: ssl.SSLContext,
        clock: Clock,
        *,
        connect_timeout: float,
        read_timeout: float,
        idle: int,
    ) -> None:
        """`idle`: connections kept open between requests, about; each costs a file descriptor."""
        self._resolver, self._vetting, self._ssl, self._clock = resolver, vetting, ssl_context, clock
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout, sock_read=read_timeout)
        self._kept = Kept(clock, idle)
        self._seen: WeakSet[Any] = WeakSet()  # connections that have carried a request
        self._session: aiohttp.ClientSession | None = None
        self._origin = lru_cache(maxsize=8_192)(URL)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        session = self._session or self._open()
        origin = str(request.url)
        target: bytes = request.extensions["target"]
        # All of the target as a path: what is not parsed for each page costs nothing, and cannot be changed.
        url = self._origin(origin).with_path(target.decode("ascii"), encoded=True)
        headers = [(name.decode("ascii"), value.decode("latin-1")) for name, value in request.headers.raw]
        if self._kept.crowded(origin):
            headers.append(("Connection", "close"))
        try:
            answer = await session.request(request.method, url, headers=headers, allow_redirects=False)
        except (aiohttp.ClientError, OSError) as error:  # a timeout is an OSError too
            raise translate(error) from error
        assert isinstance(answer, _Answer)
        return httpx.Response(
            answer.status,
            headers=answer.raw_headers,
            stream=_Stream(answer),
            extensions={"written": answer.written, "connect": answer.connect, "http_version": _version(answer)},
        )

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            resolver=_VettedNames(self._resolver),
            socket_factory=self._socket,
            ssl=self._ssl,
            use_dns_cache=False,  # the resolver has its own, shared by both clients
            limit=0,  # the schedule counts requests; a second gate here would only delay them unseen
            keepalive_timeout=KEEP_ALIVE,
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=self._timeout,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            request_class=_Request,
            response_class=_Answer,
            middlewares=(self._watch,),
            max_line_size=LINE,
            max_field_size=FIELD,
        )
        return self._session

    async def _watch(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Keeps aiohttp from repeating a request by itself, without a delay: a server that hangs up on us would see two
        at once."""
        assert isinstance(request, _Request)
        request.clock, request.seen, request.begun = self._clock, self._seen, self._clock.monotonic()
        try:
            return await handler(request)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            kind = _Stale if request.reused else _HungUp
            raise kind(str(error) or type(error).__name__) from error

    def _socket(self, info: Any) -> socket.socket:
        family, kind, protocol, _, address = info
        self._vetting.check(str(address[0]), int(address[1]))
        return socket.socket(family, kind, protocol)


class _HungUp(aiohttp.ClientError):
    """The connection was closed before an answer: not an error that aiohttp repeats by itself."""


class _Stale(_HungUp):
    """And it had been used before."""


class _Answer(aiohttp.ClientResponse):
    """Knows when its request went out."""

    clock: Clock
    written: float
    connect: float
    """Seconds until it had a connection; 0: a kept one."""

    def sent(self) -> None:
        """Called one turn of the loop after the request was written: uvloop sends at the end of a turn, and a turn
        with many pages in it is long."""
        self.written = self.clock.monotonic()


class _Request(aiohttp.ClientRequest):
    """Notes when the request went out, and whether its connection had been used before."""

    clock: Clock
    seen: "WeakSet[Any]"
    reused = False
    begun: float

    async def send(self, conn: Any) -> aiohttp.ClientResponse:
        ready = self.clock.monotonic()
        self.reused = conn.protocol in self.seen
        if not self.reused:
            self.seen.add(conn.protocol)
        answer = await super().send(conn)
        assert isinstance(answer, _Answer)
        answer.clock, answer.connect = self.clock, 0.0 if self.reused else ready - self.begun
        self.loop.call_soon(answer.sent)
        return answer


class _VettedNames(AbstractResolver):
    def __init__(self, resolver: Resolver) -> None:
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = await self._resolver.addresses(host, port)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for address in found
        ]

    async def close(self) -> None:
        """The resolver is shared; its owner closes it."""


class _Stream(httpx.AsyncByteStream):
    """Its own iterator: a generator left half-way would linger until the garbage collector finds it."""

    def __init__(self, answer: aiohttp.ClientResponse) -> None:
        self._answer = answer

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._answer.content.readany()
        except (aiohttp.ClientError, OSError) as error:  # a timeout is an OSError too
            raise translate(error) from error
        if not chunk:
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        """A body read to its end has given its connection back already; any other connection is of no more use."""
        self._answer.close()


def _too_long(error: aiohttp.ClientResponseError) -> bool:
    """The parser's own classes do not come through, only what they say."""
    return error.message.startswith(("Got more than", "Too many headers"))


def _version(answer: aiohttp.ClientResponse) -> bytes:
    version = answer.version
    return b"HTTP/%d.%d" % version if version else b""


def translate(error: Exception) -> TransportFault:
    text = str(error)[:200] or type(error).__name__
    match error:
        case aiohttp.ClientConnectorDNSError():
            return TransportFault("dns", text)
        case aiohttp.ClientSSLError() | ssl.SSLError() | ssl.CertificateError():
            return TransportFault("tls", text, retriable=False)
        case aiohttp.ConnectionTimeoutError():
            return TransportFault("connect", "no connection in time")
        case asyncio.TimeoutError():
            return TransportFault("timeout", "no byte in time")
        case aiohttp.ClientConnectorError():
            return TransportFault("connect", text)
        case aiohttp.InvalidURL():
            return TransportFault("protocol", f"a URL that cannot be asked for: {text}", retriable=False)
        case _Stale():
            return WentStale(text)
        case aiohttp.ClientResponseError() if _too_long(error):
            return TransportFault("headers", text, retriable=False)
        case aiohttp.ClientResponseError():
            return TransportFault("protocol", f"not HTTP: {error.message[:200]}")
        case _:
            return TransportFault("protocol", text)
