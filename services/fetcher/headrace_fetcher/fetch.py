"""One attempt at one page: ask, judge the answer, read what is wanted. Never raises for what a server does."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache

import httpx

from headrace_fetcher import headers as h
from headrace_fetcher import media
from headrace_fetcher.body import Decoder, Pace, read_whole
from headrace_fetcher.faults import (
    AddressRefused,
    BodyTooLarge,
    BrokenEncoding,
    NotWanted,
    OverBudget,
    TooSlow,
    TransportFault,
)
from headrace_fetcher.memory import Memory, Share
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
    Phases,
    Redirected,
    Refused,
)
from headrace_schemas.urls import BadUrl, Canonicaliser

Sniff = Callable[[bytes], bool]

REDIRECTS = frozenset({301, 302, 303, 307, 308})
DRAIN = 32 * 1024  # bytes of an unwanted body that are read to keep the connection; past that a new one is cheaper
DRAIN_TIME = 1.0  # seconds given to that
HEADERS, HEADER_BYTES = 128, 64 * 1024  # of an answer that is looked at; each client has bounds of its own below that
UNSENT = frozenset({"dns", "connect", "tls"})  # failures before anything could be written


@dataclass(slots=True)
class Answer:
    """What became of one attempt, and the figures that go with it."""

    outcome: Outcome
    page: FetchedPage | NotModified | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """Of an answer without a page; a page has its own."""
    figures: "Figures" = field(default_factory=lambda: Figures())


@dataclass(slots=True, frozen=True)
class Figures:
    """What a result says of its attempt beside the outcome; the fields are those of `FetchResult`."""

    asked_at: float = 0.0
    hops: tuple[tuple[str, float], ...] = ()
    received: int = 0
    protocol: str = ""
    phases: Phases = field(default_factory=Phases)


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
    begun: float = 0.0
    """When the last request was begun (a robots.txt may take several); 0: nothing went to where it was to go."""
    connect: float = -1.0
    """Seconds that went into its connection; 0: a kept one, -1: the client cannot tell."""
    protocol: str = ""
    hops: list[tuple[str, float]] = field(default_factory=list)
    """Requests to other hosts, and to this one before the last: host, and when (epoch)."""

    def figures(self, outcome: Outcome, clock: Clock, asked_at: float | None = None) -> Figures:
        """Called when the attempt has ended. `asked_at`: where it is not that of the last request."""
        now = clock.monotonic()
        to_headers = (self.answered or now) - self.begun - max(0.0, self.connect)
        phases = Phases(
            connect=-1 if self.connect < 0 else round(self.connect * 1000),
            first_byte=max(0, round(to_headers * 1000)) if self.begun else 0,
            body=round((now - self.answered) * 1000) if self.answered else 0,
        )
        if asked_at is None:
            asked_at = self.asked_at(outcome, clock)
        return Figures(asked_at, tuple(self.hops), self.received, self.protocol, phases)

    def asked_at(self, outcome: Outcome, clock: Clock) -> float:
        """Epoch seconds; 0: nothing was sent. Where the moment is not known, now: never earlier than it was."""
        if self.written is not None:
            return clock.now() - (clock.monotonic() - self.written)
        if not self.begun or (isinstance(outcome, Failed) and outcome.reason in UNSENT):
            return 0.0
        return clock.now()


class Client:
    """Requests with our headers over a transport; shared by everything that asks."""

    def __init__(self, transport: httpx.AsyncBaseTransport, agent: str, clock: Clock) -> None:
        self._transport, self._clock = transport, clock
        self._standing = h.standing(agent)
        self._origin = lru_cache(maxsize=8_192)(self._prepare)  # or it would take longer than all else here

    @asynccontextmanager
    async def get(self, url: str, trip: Trip, extra: h.Raw = ()) -> AsyncIterator[httpx.Response]:
        origin, target = target_of(url)
        request = self._request(self._origin(origin), target, extra)
        trip.written, trip.status, trip.answered = None, 0, 0.0
        trip.begun, trip.connect, trip.protocol = self._clock.monotonic(), -1.0, ""
        response = await self._transport.handle_async_request(request)
        try:
            trip.written, trip.answered = response.extensions["written"], self._clock.monotonic()
            trip.connect, trip.protocol = response.extensions["connect"], protocol_of(response)
            trip.status = response.status_code
            trip.headers = response.headers.raw
            _bounded(trip.headers)
            yield response
        finally:
            await response.aclose()

    def _prepare(self, origin: str) -> httpx.Request:
        url = httpx.URL(origin)
        return httpx.Request("GET", url, headers=[(b"Host", url.netloc), *self._standing])

    def _request(self, like: httpx.Request, target: bytes, extra: h.Raw) -> httpx.Request:
        """A request of the same origin. Its constructor would read URL and headers again, for a tenth of a page."""
        if extra:
            return httpx.Request("GET", like.url, headers=[*like.headers.raw, *extra], extensions={"target": target})
        request = httpx.Request.__new__(httpx.Request)
        request.__dict__.update(like.__dict__, extensions={"target": target})
        return request


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

    async def fetch(self, task: FetchTask, trip: Trip) -> Answer:
        answer = await self._attempt(task, trip)
        answer.figures = trip.figures(answer.outcome, self._clock)
        return answer

    async def _attempt(self, task: FetchTask, trip: Trip) -> Answer:
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
        status, raw = trip.status, trip.headers
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
        raw = trip.headers
        kind, charset = h.content_type(h.first(raw, b"content-type"))
        if kind and not media.wanted(task.kind, kind):
            await drain(response)
            return Answer(Failed("not_html", trip.status, detail=kind), headers=h.kept(raw))
        sniff = None if kind or task.kind == "sitemap" else media.looks_like_html
        with self._memory.share() as share:  # until it is packed: a body is whole in memory for that long
            body = await self._body(task, trip, response, share, sniff)
            packed = await self._packer.pack(body)
        if sniff is not None and body:
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
            protocol=trip.protocol,
            chain=task.chain,
            run=task.run,
            store=task.store,
        )
        return Answer(Fetched(trip.status, packed.size, packed.sha256), page)

    async def _body(
        self, task: FetchTask, trip: Trip, response: httpx.Response, share: Share, sniff: Sniff | None
    ) -> bytes:
        raw, limit = trip.headers, min(self._max_bytes, task.max_bytes or self._max_bytes)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        try:
            if (announced := length_of(raw)) is not None and announced > limit:
                raise BodyTooLarge(limit)
            decoder = Decoder(h.joined(raw, b"content-encoding"), limit)
            pace = Pace(self._clock, self._min_rate)
            body, trip.received = await read_whole(response.stream, decoder, share, pace, sniff)
        except BodyTooLarge as error:
            if error.limit == limit < self._max_bytes:
                raise OverBudget(limit) from None
            raise
        return body

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
            trip.asked, trip.begun = False, 0.0
            return Refused("address", str(error)[:200])
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


def protocol_of(response: httpx.Response) -> str:
    return str(response.extensions.get("http_version", b"").decode("ascii", "replace"))


def _bounded(raw: h.Raw) -> None:
    size = sum(len(name) + len(value) for name, value in raw)
    if len(raw) > HEADERS or size > HEADER_BYTES:
        raise TransportFault("headers", f"{len(raw)} headers of {size} bytes", retriable=False)


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
