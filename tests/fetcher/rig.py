"""The fetcher's real parts, put together as `service.build` does, for tests of single attempts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from headrace_fetcher.client import Client
from headrace_fetcher.fetch import PageFetcher
from headrace_fetcher.headers import user_agent
from headrace_fetcher.httptools_transport import HttptoolsTransport
from headrace_fetcher.httpx_transport import PerHostTransport
from headrace_fetcher.lookups import Lookups
from headrace_fetcher.memory import Memory
from headrace_fetcher.packing import Packer
from headrace_fetcher.pyreqwest_transport import PyreqwestTransport
from headrace_fetcher.resolver import Resolver
from headrace_fetcher.robots import RobotsFetcher
from headrace_fetcher.transport import new_ssl_context
from headrace_fetcher.trip import Answer, Trip
from headrace_fetcher.vetting import Vetting
from headrace_runtime.clock import SystemClock
from headrace_schemas.messages import FetchTask
from headrace_schemas.urls import Canonicaliser, host_of

CLIENTS = ("httptools", "pyreqwest", "httpx")
LOOPBACK = ("127.0.0.0/8",)


def task(url: str, **more: Any) -> FetchTask:
    base: dict[str, Any] = {"fetch_id": 7, "key": b"k" * 16, "host": host_of(url), "delay": 0.0, "valid_until": 1e12}
    return FetchTask(url=url, **(base | more))


@dataclass
class Rig:
    pages: PageFetcher
    robots: RobotsFetcher
    transport: httpx.AsyncBaseTransport
    trip: Trip
    """Of the last fetch."""
    held: list[str]
    """URLs of further requests of the same attempt, which waited for their turn."""

    async def fetch(self, url: str, **more: Any) -> Answer:
        self.trip = Trip(SystemClock().monotonic())
        wanted = task(url, **more)
        if wanted.kind == "robots":
            return await self.robots.fetch(wanted, self.trip, self._hold)
        return await self.pages.fetch(wanted, self.trip, self._hold)

    async def _hold(self, url: str) -> None:
        self.held.append(url)


@asynccontextmanager
async def rig(
    client: str,
    *,
    allow: tuple[str, ...] = LOOPBACK,
    total: float = 5.0,
    read: float = 3.0,
    max_bytes: int = 1_000_000,
    idle: int = 100,
    ports: tuple[int, ...] = (),
    max_memory: int = 100_000_000,
    min_rate: int = 0,
    ttl: float = 300.0,
    http2: bool = True,
) -> AsyncIterator[Rig]:
    clock, vetting = SystemClock(), Vetting(allow, ports)
    resolver = Resolver(vetting, clock, Lookups(timeout=2.0, patience=total), ttl=ttl)
    transport: httpx.AsyncBaseTransport
    if client == "pyreqwest":
        transport = PyreqwestTransport(resolver, clock, connect_timeout=2.0, read_timeout=read, idle=idle, http2=http2)
    elif client == "httptools":
        transport = HttptoolsTransport(
            resolver, new_ssl_context(), clock, connect_timeout=2.0, read_timeout=read, idle=idle
        )
    else:
        transport = PerHostTransport(
            resolver, new_ssl_context(), clock, connect_timeout=2.0, read_timeout=read, idle=idle
        )
    packer, memory = Packer(3), Memory(max_memory)
    asker = Client(transport, user_agent("headrace", "1.2", "ops@example.org"), clock)
    pages = PageFetcher(
        asker, Canonicaliser(), packer, memory, clock, total_timeout=total, max_bytes=max_bytes, min_rate=min_rate
    )
    robots = RobotsFetcher(asker, memory, clock, host_of, total_timeout=total, max_bytes=max_bytes, min_rate=min_rate)
    try:
        yield Rig(pages, robots, transport, Trip(0.0), [])
    finally:
        await transport.aclose()
        await resolver.close()
        packer.close()
