"""httpx's transport seam over pyreqwest (Rust: reqwest, hyper, rustls): TLS and parsing off the event loop, HTTP/2.

It has no hook for the address a connection goes to, so every client is built with its hosts' vetted addresses
(`generations.py`). It does not tell when a request was written either: the moment the answer's headers came is taken,
the safe side, since the server has seen the request by then, and a gap counted from there is never too short.
"""

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

import httpx
from pyreqwest.client import Client, ClientBuilder
from pyreqwest.exceptions import BuilderError, PyreqwestError, RequestTimeoutError
from pyreqwest.request import StreamRequest
from pyreqwest.response import Response

from headrace_fetcher.faults import Exhausted, TransportFault
from headrace_fetcher.generations import Generation, Generations
from headrace_fetcher.resolver import Resolver
from headrace_fetcher.transport import KEEP_ALIVE, Kept, host_of, port_of
from headrace_runtime.clock import Clock
from headrace_schemas.urls import is_address

HEADER_LIST = 64 * 1024  # bytes of an HTTP/2 answer's headers; HTTP/1 has a bound of its own
_TLS = ("certificate", "TLS", "tls", "fatal alert", "peer is incompatible", "peer misbehaved", "corrupt message")
"""Words of rustls when it is not the network that is in the way."""
VERSIONS = {"HTTP/2.0": b"HTTP/2"}


class PyreqwestTransport(httpx.AsyncBaseTransport):
    """One for the process."""

    def __init__(
        self,
        resolver: Resolver,
        clock: Clock,
        *,
        connect_timeout: float,
        read_timeout: float,
        idle: int,
        http2: bool,
    ) -> None:
        """`idle`: connections kept open between requests, about."""
        self._resolver, self._clock, self._kept = resolver, clock, Kept(clock, idle)
        self._connect_timeout, self._read_timeout, self._http2 = connect_timeout, read_timeout, http2
        self._generations = Generations(self._client, clock)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        origin, host = str(request.url), host_of(request.url)
        addresses = await self._resolver.addresses(host, port_of(request.url))
        generation = await self._generations.take(host, addresses)
        try:
            asked = self._request(generation.client, request, origin)
            answer = await asked.__aenter__()
        except BaseException as error:
            await self._generations.release(generation)
            if not isinstance(error, PyreqwestError):
                raise
            fault = translate(error)
            if fault.reason == "connect":
                self._generations.move(host, addresses)
            raise fault from error
        return httpx.Response(
            answer.status,
            stream=_Stream(answer, asked, generation, self._generations),
            extensions={
                "fields": _headers(answer),
                "written": self._clock.monotonic(),
                "connect": -1.0,
                "http_version": VERSIONS.get(answer.version) or answer.version.encode("ascii", "replace"),
            },
        )

    async def aclose(self) -> None:
        await self._generations.close()

    def _request(self, client: Client, request: httpx.Request, origin: str) -> StreamRequest:
        target: bytes = request.extensions["target"]
        headers = [
            (name.decode("ascii"), value.decode("latin-1"))
            for name, value in request.headers.raw
            if name != b"Host"  # its own, from the URL; in HTTP/2 there is none
        ]
        if self._kept.crowded(origin):
            headers.append(("Connection", "close"))
        try:
            asked = client.request(request.method, origin[:-1] + target.decode("ascii")).headers(headers)
        except ValueError as error:  # it looks into the labels of a name that its own URL library does not believe
            raise TransportFault("protocol", f"a URL that cannot be asked for: {error}", retriable=False) from error
        return asked.streamed_read_buffer_limit(0).build_streamed()  # else headers are held back until 64 KiB came

    def _client(self, pins: Mapping[str, str]) -> Client:
        builder = (
            ClientBuilder()
            .follow_redirects(False)
            .no_proxy()
            .default_cookie_store(False)
            .referer(False)
            .gzip(False)
            .brotli(False)
            .zstd(False)
            .deflate(False)
            .http2(self._http2)
            .http2_max_header_list_size(HEADER_LIST)
            .connect_timeout(timedelta(seconds=self._connect_timeout))
            .read_timeout(timedelta(seconds=self._read_timeout))
            .pool_idle_timeout(timedelta(seconds=KEEP_ALIVE))
            .pool_max_idle_per_host(1)
        )
        for host, address in pins.items():
            if not is_address(host.strip("[]")):  # an address is connected to as it is
                builder = builder.resolve(host, address, 0)  # 0: the URL's own port
        try:
            return builder.build()
        except BuilderError as error:  # the root certificates are read each time: the first thing to fail
            raise Exhausted(f"no client can be made: {error}") from error


class _Stream(httpx.AsyncByteStream):
    def __init__(self, answer: Response, asked: StreamRequest, home: Generation, generations: Generations) -> None:
        self._reader, self._asked, self._home, self._generations = answer.body_reader, asked, home, generations
        self._open = True

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._reader.read_chunk()
        except PyreqwestError as error:
            raise translate(error) from error
        if chunk is None:
            raise StopAsyncIteration
        return bytes(chunk)

    async def aclose(self) -> None:
        if self._open:
            self._open = False
            try:
                await self._asked.__aexit__(None, None, None)
            finally:
                await self._generations.release(self._home)


def _headers(answer: Response) -> list[tuple[bytes, bytes]]:
    """The library gives out values as text and refuses those with bytes above ASCII: they are left away, one by one."""
    try:
        return [(name.encode("ascii"), value.encode("ascii")) for name, value in answer.headers.items()]
    except ValueError:
        pass
    found: list[tuple[bytes, bytes]] = []
    for name in dict.fromkeys(answer.headers.keys()):
        try:
            found += [(name.encode("ascii"), value.encode("ascii")) for value in answer.headers.getall(name)]
        except ValueError:
            continue
    return found


def translate(error: PyreqwestError) -> TransportFault:
    """Its classes do not tell connecting from sending; the chain of causes does."""
    details: Any = getattr(error, "details", None) or {}
    causes = [str(cause["message"]) for cause in details.get("causes") or ()]
    text = (": ".join(causes[-2:]) or error.message)[:200]
    connecting = "client error (Connect)" in causes
    if isinstance(error, RequestTimeoutError):
        return (
            TransportFault("connect", "no connection in time")
            if connecting
            else TransportFault("timeout", "no byte in time")
        )
    if connecting:
        tls = any(word in cause for cause in causes for word in _TLS) and "tls handshake eof" not in causes
        return TransportFault("tls", text, retriable=False) if tls else TransportFault("connect", text)
    if any("head is too large" in cause or "header list" in cause for cause in causes):
        return TransportFault("headers", text, retriable=False)
    return TransportFault("protocol", text)
