"""The composition: settings and parts → the fetcher service."""

import resource
from collections.abc import Awaitable
from typing import Any

import httpx

from headrace_fetcher.client import Client
from headrace_fetcher.dispatch import Dispatcher
from headrace_fetcher.errand import Errand
from headrace_fetcher.fetch import PageFetcher
from headrace_fetcher.headers import user_agent
from headrace_fetcher.httptools_transport import HttptoolsTransport
from headrace_fetcher.httpx_transport import PerHostTransport
from headrace_fetcher.lookups import Lookups
from headrace_fetcher.memory import Memory
from headrace_fetcher.meters import Meters
from headrace_fetcher.packing import Packer
from headrace_fetcher.pyreqwest_transport import PyreqwestTransport
from headrace_fetcher.replies import GROUP, Replies
from headrace_fetcher.resolver import Resolver
from headrace_fetcher.robots import RobotsFetcher
from headrace_fetcher.schedule import Schedule
from headrace_fetcher.transport import new_ssl_context
from headrace_fetcher.trip import Answer, Hold, Trip
from headrace_fetcher.vetting import Vetting
from headrace_fetcher.worker import LaneWorker
from headrace_runtime.clock import Clock
from headrace_runtime.logs import get_logger
from headrace_runtime.service import Parts, Service
from headrace_runtime.streams.loops import Desk, run_pooled
from headrace_runtime.streams.seams import Lane
from headrace_runtime.vitals import release
from headrace_schemas.messages import FetchTask
from headrace_schemas.settings import Settings
from headrace_schemas.topics import inputs_of
from headrace_schemas.urls import Canonicaliser, Partitioner, host_of

log = get_logger("fetcher")

WIDTH = 2_048  # tasks a lane may have taken on and not done


def build(settings: Settings, parts: Parts) -> Service:
    clock, fetch, limits = parts.clock, settings.fetch, settings.limits
    vetting = Vetting(fetch.allow_private, fetch.ports)
    lookups = Lookups(timeout=fetch.connect_timeout, patience=fetch.total_timeout)
    resolver = Resolver(vetting, clock, lookups)
    transport = _transport(settings, resolver, clock)
    packer = Packer(fetch.zstd_level)
    client = Client(transport, user_agent(fetch.agent, release(), settings.contact), clock)
    memory = Memory(fetch.max_memory)
    pages = PageFetcher(
        client,
        Canonicaliser(settings.canonical),
        packer,
        memory,
        clock,
        total_timeout=fetch.total_timeout,
        max_bytes=fetch.max_bytes,
        min_rate=fetch.min_rate,
    )
    key_of = Partitioner(settings.partitions, settings.politeness.key).politeness_key
    robots = RobotsFetcher(
        client,
        memory,
        clock,
        key_of,
        total_timeout=fetch.total_timeout,
        max_bytes=fetch.max_bytes,
        min_rate=fetch.min_rate,
    )

    async def attempt(task: FetchTask, trip: Trip, hold: Hold) -> Answer:
        if task.kind == "robots":
            return await robots.fetch(task, trip, hold)
        return await pages.fetch(task, trip, hold)

    meters = Meters(parts.registry, clock)
    schedule: Schedule[Errand] = Schedule(
        concurrency=_at_once(limits.concurrency), rate=limits.rate, patience=fetch.total_timeout
    )

    def unknown(url: str) -> Awaitable[object] | None:
        return resolver.unknown(host_of(url))

    dispatcher = Dispatcher(schedule, attempt, clock, meters, key_of, unknown, settings.retry.max_retry_after)
    replies = Replies(lambda: parts.control.now.revision)

    def worker(lane: Lane, desk: Desk) -> LaneWorker:
        return LaneWorker(lane, desk, dispatcher, replies, clock, fetch.total_timeout)

    async def serve(lane: Lane) -> None:
        await run_pooled(lane, worker, width=WIDTH)

    async def start() -> None:
        parts.control.watch(dispatcher.control)

    async def close() -> None:
        await transport.aclose()
        await resolver.close()
        packer.close()

    def status() -> dict[str, Any]:
        return {
            "requests": dispatcher.busy,
            "waiting": schedule.waiting,
            "hosts": schedule.hosts,
            "running": dispatcher.open,
            "pages_per_second": round(meters.pace.rate(), 1),
            "success_rate": round(meters.success_rate(), 3),
        }

    return Service(
        group=GROUP,
        topics=inputs_of(GROUP),
        serve=serve,
        background=(dispatcher.run,),
        start=start,
        close=close,
        status=status,
        busy=lambda: dispatcher.busy,
    )


def _transport(settings: Settings, resolver: Resolver, clock: Clock) -> httpx.AsyncBaseTransport:
    fetch, idle = settings.fetch, _idle_connections(settings.limits.concurrency)
    if fetch.client == "httpx":
        return PerHostTransport(
            resolver,
            new_ssl_context(),
            clock,
            connect_timeout=fetch.connect_timeout,
            read_timeout=fetch.read_timeout,
            idle=idle,
        )
    if fetch.client == "pyreqwest":
        return PyreqwestTransport(
            resolver,
            clock,
            connect_timeout=fetch.connect_timeout,
            read_timeout=fetch.read_timeout,
            idle=idle,
            http2=fetch.http2,
        )
    return HttptoolsTransport(
        resolver,
        new_ssl_context(),
        clock,
        connect_timeout=fetch.connect_timeout,
        read_timeout=fetch.read_timeout,
        idle=idle,
    )


def _at_once(wanted: int) -> int:
    """Requests under way: with half of the file descriptors taken by them, the log, the index and the kept connections
    still find some."""
    most = max(1, _descriptors() // 2)
    if wanted > most:
        log.warning("fewer requests at once than limits.concurrency: too few file descriptors", at_once=most)
    return min(wanted, most)


def _idle_connections(concurrency: int) -> int:
    """Half of the file descriptors, less the requests under way: the log, the index and the rest need some too."""
    return max(16, min(10_000, _descriptors() // 2 - concurrency))


def _descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1_000_000 if soft == resource.RLIM_INFINITY else soft
