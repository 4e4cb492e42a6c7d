"""One attempt at a robots.txt: the only request whose redirects are followed in place (RFC 9309 section 2.3.1.2).

2xx and 4xx but 429 are answers. 5xx, 429 and network trouble are not: the frontier must not crawl on them, and asks
again. A chain of redirects that leads nowhere means, by the RFC, that there is no robots.txt.
"""

import asyncio
from collections.abc import Awaitable, Callable

import httpx
from msgspec.structs import replace

from headrace_fetcher import headers as h
from headrace_fetcher.body import Decoder, read_start
from headrace_fetcher.faults import AddressRefused
from headrace_fetcher.fetch import REDIRECTS, Answer, Client, Trip, drain, failure_of
from headrace_runtime.clock import Clock
from headrace_schemas.messages import Failed, FetchTask, Outcome, Robots
from headrace_schemas.urls import BadUrl, as_found, host_of

HOPS = 5
TEXT = 500 * 1024  # bytes: what RFC 9309 section 2.5 asks to be parsed at the least

Hold = Callable[[float], Awaitable[None]]
"""Returns once the monotonic clock has reached a time AND a request may start (not paused, lane still ours)."""


class RobotsFetcher:
    def __init__(self, client: Client, clock: Clock, *, total_timeout: float, max_bytes: int) -> None:
        self._client, self._clock = client, clock
        self._total_timeout, self._max_bytes = total_timeout, max_bytes

    async def fetch(self, task: FetchTask, trip: Trip, hold: Hold) -> Answer:
        url, visited = task.url, {host_of(task.url): float("-inf")}
        for hop in range(HOPS + 1):
            outcome, target = await self._hop(url, trip, hop)
            if not target:
                return Answer(outcome, headers=h.kept(trip.headers))
            visited[host_of(url)] = trip.written or self._clock.monotonic()
            url = target
            await hold(visited.get(host_of(url), float("-inf")) + task.delay)
        return Answer(Robots(trip.status), headers=h.kept(trip.headers))

    async def _hop(self, url: str, trip: Trip, hop: int) -> tuple[Outcome, str]:
        """→ the outcome, or where the next hop goes."""
        try:
            async with asyncio.timeout(self._total_timeout):
                async with self._client.get(url, trip) as response:
                    status, raw = response.status_code, response.headers.raw
                    if status in REDIRECTS:
                        await drain(response)
                        return Robots(status), _target(h.first(raw, b"location"), url)
                    if status == 429 or status >= 500:
                        wait = h.retry_after(h.first(raw, b"retry-after"), self._clock.now())
                        await drain(response)
                        return Failed("http", status, True, wait), ""
                    if not 200 <= status < 300:
                        await drain(response)
                        return Robots(status), ""
                    assert isinstance(response.stream, httpx.AsyncByteStream)
                    decoder = Decoder(h.joined(raw, b"content-encoding"), self._max_bytes)
                    text, received = await read_start(response.stream, decoder, TEXT)
                    trip.received += received
                    return Robots(status, text), ""
        except Exception as error:
            if hop and isinstance(error, AddressRefused):  # the host is fine, its redirect is not
                return Robots(404), ""
            outcome = failure_of(error, trip, self._total_timeout)
            if outcome is None:
                raise
            if isinstance(outcome, Failed):  # whatever it was: without an answer nothing of the host may be fetched
                outcome = replace(outcome, retriable=True)
            return outcome, ""


def _target(location: str, base: str) -> str:
    try:
        return as_found(location, base) if location else ""
    except (BadUrl, ValueError):
        return ""
