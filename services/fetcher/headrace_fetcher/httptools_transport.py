"""httpx's transport seam over connections of our own, one pool of them for each origin.

Names are resolved and vetted by us, and a connection is made to the very address that was vetted. Nothing else stands
between a request and its socket: a library's session, request and response objects cost more than all else of a page.
"""

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator
from functools import partial

import aiohappyeyeballs
import httpx

from headrace_fetcher.connection import RECEIVE, Connection, Exchange
from headrace_fetcher.faults import TransportFault
from headrace_fetcher.resolver import Resolver
from headrace_fetcher.transport import KEEP_ALIVE, Kept, host_of, port_of
from headrace_runtime.clock import Clock

LOOK = 0.1  # of the patience with a silent server: how much longer than that it may last
SECOND_TRY = 0.25  # seconds until the next address of a host is tried beside the first (RFC 8305)

_SENDABLE = re.compile(rb"[!-~]+").fullmatch  # a space or a line break would be a request of someone else's making


class _Origin:
    """What is known of one scheme, host and port, for as long as a connection to it is open."""

    __slots__ = ("headers", "host", "idle", "lines", "open", "port", "tls")

    def __init__(self, url: httpx.URL) -> None:
        self.host, self.port, self.tls = host_of(url), port_of(url), url.scheme == "https"
        self.idle: list[Connection] = []
        self.open = 0
        self.headers: httpx.Headers | None = None
        self.lines = b""

    def head(self, headers: httpx.Headers) -> bytes:
        """The same few for nearly every request."""
        if headers is not self.headers:
            lines = b"".join(b"%b: %b\r\n" % field for field in headers.raw)
            self.headers, self.lines = headers, b" HTTP/1.1\r\n" + lines
        return self.lines


class HttptoolsTransport(httpx.AsyncBaseTransport):
    """One for the process. All calls on one event loop."""

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
        """`idle`: connections kept open between requests, about; each costs a file descriptor."""
        self._resolver, self._ssl, self._clock = resolver, ssl_context, clock
        self._connect_timeout, self._read_timeout = connect_timeout, read_timeout
        self._kept = Kept(clock, idle)
        self._origins: dict[str, _Origin] = {}
        self._open: set[Connection] = set()
        self._buffer = memoryview(bytearray(RECEIVE))
        self._timer: asyncio.TimerHandle | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        target: bytes = request.extensions["target"]
        if not _SENDABLE(target):
            raise TransportFault("protocol", "a URL that cannot be asked for", retriable=False)
        name = request.extensions["origin"]
        origin = self._origins.get(name)
        if origin is None:
            origin = self._origins[name] = _Origin(request.url)
        connection, connect = _idle(origin), 0.0
        if connection is None:
            began = self._clock.monotonic()
            connection = await self._connect(name, origin)
            connect = self._clock.monotonic() - began
        last = self._kept.crowded(name)
        head = b"GET %b%b%b" % (target, origin.head(request.headers), b"Connection: close\r\n\r\n" if last else b"\r\n")
        exchange = connection.ask(head, last)
        try:
            await exchange.head()
        except BaseException:
            exchange.leave()
            raise
        return httpx.Response(
            exchange.status,
            stream=_Stream(exchange),
            extensions={
                "fields": exchange.fields,
                "written": exchange.written or self._clock.monotonic(),
                "connect": connect,
                "http_version": connection.version,
            },
        )

    def __len__(self) -> int:
        """Connections that are open."""
        return len(self._open)

    async def aclose(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._open):
            connection.abort()
        if self._open:
            await asyncio.sleep(0)  # they are told that they are lost at the next turn

    async def _connect(self, name: str, origin: _Origin) -> Connection:
        origin.open += 1  # while it is being made, too: or what another request knows of the origin would be forgotten
        try:
            addresses = await self._resolver.addresses(origin.host, origin.port)
            async with asyncio.timeout(self._connect_timeout):
                connection = await self._made(name, origin, addresses)
        except BaseException as error:
            self._forget(name, origin)
            if isinstance(error, OSError):  # a timeout is one too
                raise translate(error) from error
            raise
        self._open.add(connection)
        if self._timer is None:
            self._look(asyncio.get_running_loop())
        return connection

    async def _made(self, name: str, origin: _Origin, addresses: tuple[str, ...]) -> Connection:
        loop = asyncio.get_running_loop()
        made = partial(Connection, self._clock, self._buffer, origin.idle.append, partial(self._lost, name, origin))
        tls, name_on_it = (self._ssl, origin.host.rstrip(".")) if origin.tls else (None, None)
        if len(addresses) == 1:
            _, connection = await loop.create_connection(
                made, addresses[0], origin.port, ssl=tls, server_hostname=name_on_it
            )
            return connection
        sock = await aiohappyeyeballs.start_connection(
            [_info(address, origin.port) for address in addresses], happy_eyeballs_delay=SECOND_TRY, interleave=1
        )
        _, connection = await loop.create_connection(made, sock=sock, ssl=tls, server_hostname=name_on_it)
        return connection

    def _lost(self, name: str, origin: _Origin, connection: Connection) -> None:
        if connection in self._open:  # else it was lost while it was being made
            self._open.discard(connection)
            if connection in origin.idle:
                origin.idle.remove(connection)
            self._forget(name, origin)

    def _forget(self, name: str, origin: _Origin) -> None:
        origin.open -= 1
        if not origin.open and self._origins.get(name) is origin:
            del self._origins[name]

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """One timer for all connections instead of one for each wait."""
        now = self._clock.monotonic()
        for connection in list(self._open):
            connection.look(now, self._read_timeout, KEEP_ALIVE)
        pause = min(1.0, LOOK * self._read_timeout)
        self._timer = loop.call_later(pause, self._look, loop) if self._open else None


def _idle(origin: _Origin) -> Connection | None:
    while origin.idle:
        connection = origin.idle.pop()
        if connection.usable:
            return connection
    return None


def _info(address: str, port: int) -> aiohappyeyeballs.AddrInfoType:
    if ":" in address:
        return socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port, 0, 0)
    return socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (address, port)


class _Stream(httpx.AsyncByteStream):
    """Its own iterator: a generator left half-way would linger until the garbage collector finds it."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        piece = await self._exchange.piece()
        if not piece:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        """A body read to its end has given its connection back already."""
        self._exchange.leave()


def translate(error: OSError) -> TransportFault:
    """What kept a connection from being made."""
    match error:
        case ssl.SSLEOFError():  # hung up on in the handshake: the network, or a server with too much to do
            return TransportFault("connect", str(error)[:200])
        case ssl.SSLError():  # a certificate that is not right, too
            return TransportFault("tls", str(error)[:200], retriable=False)
        case TimeoutError():
            return TransportFault("connect", "no connection in time")
        case _:
            return TransportFault("connect", str(error)[:200] or type(error).__name__)
