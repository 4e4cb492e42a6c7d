"""One attempt at one page: ask, judge the answer, read what is wanted. Never raises for what a server does."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

import httpx

from headrace_fetcher import headers as h
from headrace_fetcher import media
from headrace_fetcher.body import Pace, read
from headrace_fetcher.client import Client, drain
from headrace_fetcher.encodings import Decoder
from headrace_fetcher.faults import (
    AddressRefused,
    BodyTooLarge,
    BrokenEncoding,
    Exhausted,
    NotWanted,
    OverBudget,
    TooSlow,
    TransportFault,
    WentStale,
)
from headrace_fetcher.memory import Memory, Share
from headrace_fetcher.packing import Packer
from headrace_fetcher.trip import Answer, Hold, Trip
from headrace_runtime.clock import Clock
from headrace_schemas.messages import (
    Deferred,
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

Sniff = Callable[[bytes], bool]

REDIRECTS = frozenset({301, 302, 303, 307, 308})


class PageFetcher:
    def __init__(
        self,
        client: Client,
        canonicaliser: Canonicaliser,
        packer: Packer,
        memory: Memory,
        clock: Clock,
        *,
        total_timeout: float,
        max_bytes: int,
        min_rate: int,
    ) -> None:
        self._client, self._canonicaliser, self._packer, self._clock = client, canonicaliser, packer, clock
        self._memory, self._min_rate = memory, min_rate
        self._total_timeout, self._max_bytes = total_timeout, max_bytes

    async def fetch(self, task: FetchTask, trip: Trip, hold: Hold) -> Answer:
        try:
            answer = await self._attempt(task, trip)
        except WentStale as error:
            trip.hopped(task.host, Failed(error.reason), self._clock)
            await hold(task.url)
            trip.started = self._clock.monotonic()
            answer = await self._attempt(task, trip, again=True)
        answer.figures = trip.figures(answer.outcome, self._clock)
        return answer

    async def _attempt(self, task: FetchTask, trip: Trip, *, again: bool = False) -> Answer:
        """`again`: what went stale once is not given another chance."""
        try:
            async with asyncio.timeout(self._total_timeout):  # a slow drip passes every other timeout
                async with aclosing(await self._client.get(task.url, trip, h.conditions(task))) as body:
                    return await self._judge(task, trip, body)
        except Exception as error:
            outcome = failure_of(error, trip, self._total_timeout)
            if outcome is None or (isinstance(error, WentStale) and not again):
                raise
            return Answer(outcome, headers=trip.headers.kept())

    async def _judge(self, task: FetchTask, trip: Trip, body: httpx.AsyncByteStream) -> Answer:
        status, headers = trip.status, trip.headers
        if 200 <= status < 300:
            return await self._page(task, trip, body)
        await drain(body, headers)
        conditional = bool(task.etag or task.last_modified)
        if status == 304 and conditional:
            return self._not_modified(task, trip)
        if status in REDIRECTS:
            return Answer(self._redirect(task, status, headers.first(b"location")), headers=headers.kept())
        retriable = status == 429 or 500 <= status < 600
        wait = h.retry_after(headers.first(b"retry-after"), self._clock.now()) if retriable else 0.0
        return Answer(Failed("http", status, retriable, wait), headers=headers.kept())

    def _redirect(self, task: FetchTask, status: int, location: str) -> Outcome:
        if not location:
            return Failed("bad_redirect", status, detail="no Location")
        try:
            found = self._canonicaliser.find(location, task.url)
        except (BadUrl, ValueError) as error:
            return Failed("bad_redirect", status, detail=str(error)[:200])
        return Redirected(status, found.url, found.key)

    async def _page(self, task: FetchTask, trip: Trip, body: httpx.AsyncByteStream) -> Answer:
        headers = trip.headers
        kind, charset = h.content_type(headers.first(b"content-type"))
        if kind and not media.wanted(task.kind, kind):
            await drain(body, headers)
            return Answer(Failed("not_html", trip.status, detail=kind), headers=headers.kept())
        sniff = None if kind or task.kind == "sitemap" else media.looks_like_html
        with self._memory.share() as share:  # until it is packed: a body is whole in memory for that long
            whole = await self._read(task, trip, body, share, sniff)
            packed = await self._packer.pack(whole)
        if sniff is not None and whole:
            kind = "text/html"
        page = FetchedPage(
            fetch_id=task.fetch_id,
            url=task.url,
            key=task.key,
            status=trip.status,
            fetched_at=self._clock.now(),
            body=packed.body,
            sha256=packed.sha256,
            size=packed.size,
            headers=headers.kept(),
            content_type=kind,
            charset=charset,
            etag=headers.first(b"etag")[:1024],
            last_modified=headers.first(b"last-modified")[:100],
            depth=task.depth,
            referrer=task.referrer,
            page_type=task.page_type,
            latency_ms=self._latency(trip),
            attempt=task.attempt,
            protocol=trip.protocol,
            chain=task.chain,
            run=task.run,
            store=task.store,
        )
        return Answer(Fetched(trip.status, packed.size, packed.sha256), page)

    async def _read(
        self, task: FetchTask, trip: Trip, body: httpx.AsyncByteStream, share: Share, sniff: Sniff | None
    ) -> bytes:
        headers, limit = trip.headers, min(self._max_bytes, task.max_bytes or self._max_bytes)
        try:
            if (announced := headers.length) is not None and announced > limit:
                raise BodyTooLarge(limit)
            decoder = Decoder(headers.joined(b"content-encoding"), limit)
            pace = Pace(self._clock, self._min_rate)
            whole, trip.received = await read(body, decoder, share, pace, wanted=sniff)
        except BodyTooLarge as error:
            if error.limit == limit < self._max_bytes:
                raise OverBudget(limit) from None
            raise
        return whole

    def _not_modified(self, task: FetchTask, trip: Trip) -> Answer:
        headers = trip.headers
        page = NotModified(
            fetch_id=task.fetch_id,
            url=task.url,
            key=task.key,
            fetched_at=self._clock.now(),
            etag=headers.first(b"etag")[:1024] or task.etag,
            last_modified=headers.first(b"last-modified")[:100] or task.last_modified,
            latency_ms=self._latency(trip),
            attempt=task.attempt,
            depth=task.depth,
            referrer=task.referrer,
            page_type=task.page_type,
            run=task.run,
        )
        return Answer(Fetched(304), page, headers.kept())

    def _latency(self, trip: Trip) -> int:
        return round((self._clock.monotonic() - trip.started) * 1000)


def failure_of(error: Exception, trip: Trip, deadline: float) -> Outcome | None:
    """The outcome that a known trouble means; None for a bug of ours."""
    match error:
        case AddressRefused():
            trip.asked, trip.begun = False, 0.0
            return Refused("address", str(error)[:200])
        case Exhausted():
            trip.asked, trip.begun = False, 0.0
            return Deferred(0.0, "exhausted")
        case TransportFault():
            return Failed(error.reason, trip.status, error.retriable, detail=error.detail[:200])
        case TimeoutError():
            return Failed("timeout", trip.status, True, detail=f"not complete after {deadline:g} s")
        case OverBudget():
            return Failed("over_budget", trip.status, detail=str(error))
        case TooSlow():
            return Failed("too_slow", trip.status, True, detail=str(error))
        case BodyTooLarge():
            return Failed("too_large", trip.status, detail=str(error))
        case BrokenEncoding():
            return Failed("decode", trip.status, detail=str(error)[:200])
        case NotWanted():
            return Failed("not_html", trip.status, detail=str(error))
        case _:
            return None
