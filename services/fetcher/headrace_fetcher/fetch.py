"""One attempt at one page: ask, judge the answer, read what is wanted. Never raises for what a server does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache

import httpx

from headrace_fetcher import headers as h
from headrace_fetcher import media
from headrace_fetcher.body import Decoder, read_whole
from headrace_fetcher.faults import AddressRefused, BodyTooLarge, BrokenEncoding, NotWanted, TransportFault
from headrace_fetcher.packing import Packer
from headrace_fetcher.transport import target_of
from headrace_runtime.clock import Clock
from headrace_schemas.messages import (
    Failed,
    Fetched,
    FetchedPage,
    FetchTask,
    NotModified,
    Outcome,
    Redirected,
    Refused,
)
from headrace_schemas.urls import BadUrl, Canonicaliser

REDIRECTS = frozenset({301, 302, 303, 307, 308})
DRAIN = 32 * 1024  # bytes of an unwanted body that are read to keep the connection; past that a new one is cheaper
DRAIN_TIME = 1.0  # seconds given to that


@dataclass(slots=True)
class Answer:
    """What became of one attempt, and the figures that go with it."""

    outcome: Outcome
    page: FetchedPage | NotModified | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """Of an answer without a page; a page has its own."""


@dataclass(slots=True)
class Trip:
    """What is known of an attempt while it goes on, also when it ends in an error."""

    started: float
    asked: bool = True
    """False where nothing was sent to the host at all."""
    written: float | None = None
    """When the last request was on the wire; None: not known to have been."""
    answered: float = 0.0
    """When the headers of its answer were here."""
    status: int = 0
    received: int = 0
    """Bytes of bodies over the wire."""
    headers: h.Raw = field(default=())


class Client:
    """Requests with our headers over a transport; shared by everything that asks."""

    def __init__(self, transport: httpx.AsyncBaseTransport, agent: str, clock: Clock) -> None:
        self._transport, self._clock = transport, clock
        self._standing = h.standing(agent)
        self._origin = lru_cache(maxsize=8_192)(self._prepare)  # or it would take longer than all else here

    @asynccontextmanager
    async def get(
        self, url: str, trip: Trip, extra: list[tuple[bytes, bytes]] | None = None
    ) -> AsyncIterator[httpx.Response]:
        origin, target = target_of(url)
        parsed, headers = self._origin(origin)
        if extra:
            headers = httpx.Headers([*headers.raw, *extra])
        request = httpx.Request("GET", parsed, headers=headers, extensions={"target": target})
        trip.written, trip.status = None, 0
        response = await self._transport.handle_async_request(request)
        try:
            trip.written, trip.answered = response.extensions["written"], self._clock.monotonic()
            trip.status = response.status_code
            trip.headers = response.headers.raw
            yield response
        finally:
            await response.aclose()

    def _prepare(self, origin: str) -> tuple[httpx.URL, httpx.Headers]:
        url = httpx.URL(origin)
        return url, httpx.Headers([(b"Host", url.netloc), *self._standing])


class PageFetcher:
    def __init__(
        self,
        client: Client,
        canonicaliser: Canonicaliser,
        packer: Packer,
        clock: Clock,
        *,
        total_timeout: float,
        max_bytes: int,
    ) -> None:
        self._client, self._canonicaliser, self._packer, self._clock = client, canonicaliser, packer, clock
        self._total_timeout, self._max_bytes = total_timeout, max_bytes

    async def fetch(self, task: FetchTask, trip: Trip) -> Answer:
        try:
            async with asyncio.timeout(self._total_timeout):  # a slow drip passes every other timeout
                async with self._client.get(task.url, trip, h.conditions(task)) as response:
                    return await self._judge(task, trip, response)
        except Exception as error:
            outcome = failure_of(error, trip, self._total_timeout)
            if outcome is None:
                raise
            return Answer(outcome, headers=h.kept(trip.headers))

    async def _judge(self, task: FetchTask, trip: Trip, response: httpx.Response) -> Answer:
        status, raw = response.status_code, response.headers.raw
        if 200 <= status < 300:
            return await self._page(task, trip, response)
        await drain(response)
        conditional = bool(task.etag or task.last_modified)
        if status == 304 and conditional:
            return self._not_modified(task, trip, raw)
        if status in REDIRECTS:
            return Answer(self._redirect(task, status, h.first(raw, b"location")), headers=h.kept(raw))
        retriable = status == 429 or 500 <= status < 600
        wait = h.retry_after(h.first(raw, b"retry-after"), self._clock.now()) if retriable else 0.0
        return Answer(Failed("http", status, retriable, wait), headers=h.kept(raw))

    def _redirect(self, task: FetchTask, status: int, location: str) -> Outcome:
        if not location:
            return Failed("bad_redirect", status, detail="no Location")
        try:
            found = self._canonicaliser.find(location, task.url)
        except (BadUrl, ValueError) as error:
            return Failed("bad_redirect", status, detail=str(error)[:200])
        return Redirected(status, found.url, found.key)

    async def _page(self, task: FetchTask, trip: Trip, response: httpx.Response) -> Answer:
        raw = response.headers.raw
        kind, charset = h.content_type(h.first(raw, b"content-type"))
        if kind and not media.wanted(task.kind, kind):
            await drain(response)
            return Answer(Failed("not_html", trip.status, detail=kind), headers=h.kept(raw))
        if (announced := length_of(raw)) is not None and announced > self._max_bytes:
            raise BodyTooLarge(self._max_bytes)
        sniff = None if kind or task.kind == "sitemap" else media.looks_like_html
        assert isinstance(response.stream, httpx.AsyncByteStream)
        decoder = Decoder(h.joined(raw, b"content-encoding"), self._max_bytes)
        body, trip.received = await read_whole(response.stream, decoder, sniff)
        if sniff is not None and body:
            kind = "text/html"
        packed = await self._packer.pack(body)
        page = FetchedPage(
            fetch_id=task.fetch_id,
            url=task.url,
            key=task.key,
            status=trip.status,
            fetched_at=self._clock.now(),
            body=packed.body,
            sha256=packed.sha256,
            size=packed.size,
            headers=h.kept(raw),
            content_type=kind,
            charset=charset,
            etag=h.first(raw, b"etag")[:1024],
            last_modified=h.first(raw, b"last-modified")[:100],
            depth=task.depth,
            referrer=task.referrer,
            page_type=task.page_type,
            latency_ms=self._latency(trip),
            attempt=task.attempt,
            protocol=response.extensions.get("http_version", b"").decode("ascii", "replace"),
            chain=task.chain,
            run=task.run,
        )
        return Answer(Fetched(trip.status, packed.size, packed.sha256), page)

    def _not_modified(self, task: FetchTask, trip: Trip, raw: h.Raw) -> Answer:
        page = NotModified(
            fetch_id=task.fetch_id,
            url=task.url,
            key=task.key,
            fetched_at=self._clock.now(),
            etag=h.first(raw, b"etag")[:1024] or task.etag,
            last_modified=h.first(raw, b"last-modified")[:100] or task.last_modified,
            latency_ms=self._latency(trip),
            attempt=task.attempt,
            depth=task.depth,
            referrer=task.referrer,
            page_type=task.page_type,
            run=task.run,
        )
        return Answer(Fetched(304), page, h.kept(raw))

    def _latency(self, trip: Trip) -> int:
        return round((self._clock.monotonic() - trip.started) * 1000)


def failure_of(error: Exception, trip: Trip, deadline: float) -> Outcome | None:
    """The outcome that a known trouble means; None for a bug of ours."""
    match error:
        case AddressRefused():
            trip.asked = False
            return Refused("address", str(error)[:200])
        case TransportFault():
            return Failed(error.reason, trip.status, error.retriable, detail=error.detail[:200])
        case TimeoutError():
            return Failed("timeout", trip.status, True, detail=f"not complete after {deadline:g} s")
        case BodyTooLarge():
            return Failed("too_large", trip.status, detail=str(error))
        case BrokenEncoding():
            return Failed("decode", trip.status, detail=str(error)[:200])
        case NotWanted():
            return Failed("not_html", trip.status, detail=str(error))
        case _:
            return None


def length_of(raw: h.Raw) -> int | None:
    value = h.first(raw, b"content-length")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else None


async def drain(response: httpx.Response) -> None:
    """Reads a short body nobody wants, so that the connection can be used again; a long one costs the connection."""
    announced = length_of(response.headers.raw)
    if announced is not None and announced > DRAIN:
        return
    assert isinstance(response.stream, httpx.AsyncByteStream)
    received = 0
    try:
        async with asyncio.timeout(DRAIN_TIME):
            async for chunk in response.stream:
                received += len(chunk)
                if received > DRAIN:
                    return
    except (TransportFault, TimeoutError):
        return  # the status line has said all there is to know
