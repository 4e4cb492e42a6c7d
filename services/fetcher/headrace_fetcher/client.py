"""Requests with our headers over a transport, and what is first seen of an answer."""

import asyncio
from functools import lru_cache
from typing import Any

import httpx

from headrace_fetcher import headers as h
from headrace_fetcher.faults import Exhausted, TransportFault, is_exhaustion
from headrace_fetcher.transport import target_of
from headrace_fetcher.trip import Trip
from headrace_runtime.clock import Clock
from headrace_runtime.logs import get_logger

log = get_logger("fetcher")

DRAIN = 32 * 1024  # bytes of an unwanted body that are read to keep the connection; past that a new one is cheaper
DRAIN_TIME = 1.0  # seconds given to that
HEADERS, HEADER_BYTES = 128, 64 * 1024  # of an answer that is looked at; each client has bounds of its own below that


class Client:
    """Shared by everything that asks."""

    def __init__(self, transport: httpx.AsyncBaseTransport, agent: str, clock: Clock) -> None:
        self._transport, self._clock = transport, clock
        self._standing = h.standing(agent)
        self._origin = lru_cache(maxsize=8_192)(self._prepare)  # or it would take longer than all else here

    async def get(self, url: str, trip: Trip, extra: h.Raw = ()) -> httpx.AsyncByteStream:
        """→ the body, to be closed by the caller whatever happens; all else that is known of the answer is noted in
        `trip`."""
        origin, target = target_of(url)
        request = self._request(self._origin(origin), {"target": target, "origin": origin}, extra)
        trip.written, trip.status, trip.answered = None, 0, 0.0
        trip.begun, trip.connect, trip.protocol = self._clock.monotonic(), -1.0, ""
        response = await self._sent(request, trip)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        noted = response.extensions
        trip.written, trip.answered = noted["written"], self._clock.monotonic()
        trip.connect, trip.protocol = noted["connect"], noted["http_version"].decode("ascii", "replace")
        trip.status, trip.headers = response.status_code, h.Headers(noted["fields"])
        if why := _excess(trip.headers):
            await response.stream.aclose()
            raise TransportFault("headers", why, retriable=False)
        return response.stream

    async def _sent(self, request: httpx.Request, trip: Trip) -> httpx.Response:
        try:
            if trip.fault is not None:
                fault, trip.fault = trip.fault, None
                raise fault
            return await self._transport.handle_async_request(request)
        except TransportFault as fault:
            if fault.reason != "connect" or not is_exhaustion(fault):
                raise
            exhausted = Exhausted(fault.detail)
        except Exhausted as error:
            exhausted = error
        log.seldom(
            "exhausted",
            60.0,
            "connections cannot be opened, or names not looked up: put off, not failed",
            why=str(exhausted),
        )
        raise exhausted

    def _prepare(self, origin: str) -> httpx.Request:
        url = httpx.URL(origin)
        return httpx.Request("GET", url, headers=[(b"Host", url.netloc), *self._standing])

    def _request(self, like: httpx.Request, extensions: dict[str, Any], extra: h.Raw) -> httpx.Request:
        """A request of the same origin. Its constructor would read URL and headers again, for a tenth of a page."""
        if extra:
            return httpx.Request("GET", like.url, headers=[*like.headers.raw, *extra], extensions=extensions)
        request = httpx.Request.__new__(httpx.Request)
        request.__dict__.update(like.__dict__, extensions=extensions)
        return request


def _excess(headers: h.Headers) -> str:
    number, size = len(headers.raw), headers.size
    return f"{number} headers of {size} bytes" if number > HEADERS or size > HEADER_BYTES else ""


async def drain(body: httpx.AsyncByteStream, headers: h.Headers) -> None:
    """Reads a short body nobody wants, so that the connection can be used again; a long one costs the connection."""
    announced = headers.length
    if announced is not None and announced > DRAIN:
        return
    received = 0
    try:
        async with asyncio.timeout(DRAIN_TIME):
            async for chunk in body:
                received += len(chunk)
                if received > DRAIN:
                    return
    except (TransportFault, TimeoutError):
        return  # the status line has said all there is to know
