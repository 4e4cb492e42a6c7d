"""One attempt at a robots.txt: the only request whose redirects are followed in place (RFC 9309 section 2.3.1.2).

2xx and 4xx but 429 are answers. 5xx, 429 and network trouble are not: the frontier must not crawl on them, and asks
again. A chain of redirects that leads nowhere means, by the RFC, that there is no robots.txt; one that leads into a
refused address is a file that exists and that we may not read, so the host is left alone.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing

from msgspec.structs import replace

from headrace_fetcher.body import Pace, read
from headrace_fetcher.client import Client, drain
from headrace_fetcher.encodings import Decoder
from headrace_fetcher.faults import AddressRefused, WentStale
from headrace_fetcher.fetch import REDIRECTS, failure_of
from headrace_fetcher.headers import retry_after
from headrace_fetcher.memory import Memory
from headrace_fetcher.trip import Answer, Hold, Trip
from headrace_runtime.clock import Clock
from headrace_schemas.messages import Failed, FetchTask, Outcome, Robots
from headrace_schemas.urls import BadUrl, as_found

HOPS = 5
TEXT = 500 * 1024  # bytes: what RFC 9309 section 2.5 asks to be parsed at the least


class RobotsFetcher:
    def __init__(
        self,
        client: Client,
        memory: Memory,
        clock: Clock,
        key_of: Callable[[str], str],
        *,
        total_timeout: float,
        max_bytes: int,
        min_rate: int,
    ) -> None:
        """`key_of`: URL → politeness key, as tasks name their hosts."""
        self._client, self._clock, self._key_of = client, clock, key_of
        self._memory, self._min_rate = memory, min_rate
        self._total_timeout, self._max_bytes = total_timeout, max_bytes

    async def fetch(self, task: FetchTask, trip: Trip, hold: Hold) -> Answer:
        outcome = await self._follow(task, trip, hold)
        # What is said of a host must be of that host: the last request may have gone to another one.
        own = next((n for n in range(len(trip.hops) - 1, -1, -1) if trip.hops[n][0] == task.host), None)
        asked_at = 0.0 if own is None else trip.hops.pop(own)[1]
        return Answer(outcome, headers=trip.headers.kept(), figures=trip.figures(outcome, self._clock, asked_at))

    async def _follow(self, task: FetchTask, trip: Trip, hold: Hold) -> Outcome:
        url = task.url
        for hop in range(HOPS + 1):
            try:
                outcome, target = await self._hop(url, trip, hop)
            except WentStale as error:
                outcome, target = Failed(error.reason, 0, True, detail=error.detail[:200]), url
            trip.hopped(self._key_of(url), outcome, self._clock)
            if not target:
                return outcome
            url = target
            await hold(url)
        return outcome

    async def _hop(self, url: str, trip: Trip, hop: int) -> tuple[Outcome, str]:
        """→ the outcome, or where the next hop goes."""
        try:
            async with asyncio.timeout(self._total_timeout):
                async with aclosing(await self._client.get(url, trip)) as body:
                    status, headers = trip.status, trip.headers
                    if status in REDIRECTS:
                        await drain(body, headers)
                        return Robots(status), _target(headers.first(b"location"), url)
                    if status == 429 or status >= 500:
                        wait = retry_after(headers.first(b"retry-after"), self._clock.now())
                        await drain(body, headers)
                        return Failed("http", status, True, wait), ""
                    if not 200 <= status < 300:
                        await drain(body, headers)
                        return Robots(status), ""
                    decoder = Decoder(headers.joined(b"content-encoding"), self._max_bytes)
                    with self._memory.share() as share:
                        pace = Pace(self._clock, self._min_rate)
                        text, received = await read(body, decoder, share, pace, enough=TEXT)
                    trip.received += received
                    return Robots(status, text), ""
        except WentStale:
            raise
        except Exception as error:
            if hop and isinstance(error, AddressRefused):  # the host is fine, its redirect is not
                trip.begun = 0.0
                return Failed("connect", 0, True, detail=f"robots redirected into a refused address: {error}"[:200]), ""
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
