"""The all-in-one: every service in this process, from the seeds to the proof that nothing is left to do."""

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from prometheus_client import CollectorRegistry

from headrace import socket
from headrace.completion import Scan, complete
from headrace.compose import BUILDERS, Opened, build, opened
from headrace.explaining import here
from headrace.metrics_file import metrics_file
from headrace.planting import ask_again, plant
from headrace.progress import View, view_for
from headrace.reload import Reloader
from headrace.report import print_banner, print_summary
from headrace.seeding import Seeder, need_contact, read_seeds
from headrace.status import as_json, status_of
from headrace.workspace import Workspace
from headrace_runtime.clock import Deadline, SystemClock
from headrace_runtime.endpoint import Endpoint, new_registry
from headrace_runtime.logs import get_logger
from headrace_runtime.process import Signals
from headrace_runtime.service import Parts, Service, answers_of
from headrace_runtime.slots import claim
from headrace_runtime.streams.metered import watch_lag
from headrace_runtime.streams.open import brokers_of
from headrace_runtime.supervisor import Supervisor
from headrace_schemas.errors import Unavailable, UsageError
from headrace_schemas.messages import Control
from headrace_schemas.settings import Settings
from headrace_schemas.topics import EDGES
from headrace_schemas.urls import host_of

log = get_logger("crawl")

SCAN_EVERY = {False: 0.2, True: 1.0}  # seconds between two looks: embedded, on Kafka
DRAIN_EDGES = ("pages.fetched", "fetch.results", "pages.parsed")


async def _make_topics(settings: Settings) -> None:
    """One command is to be enough here too; in a fleet `headrace topics create` is a step of its own."""
    from headrace_runtime.streams.kafka.topics import create_topics

    streams = settings.streams
    await create_topics(brokers_of(streams.url), streams.prefix, settings.partitions, streams.replication)


@dataclass(frozen=True)
class Order:
    """What the command line asked for, beside the settings."""

    seeds: tuple[str, ...] = ()
    seeds_file: Path | None = None
    refresh: bool = False
    retry_failed: bool = False


async def crawl(
    settings: Settings, workspace: Workspace, order: Order, signals: Signals, reloader: Reloader, out: TextIO
) -> int:
    """→ exit code: 0 complete or stopped by command, 130 interrupted."""
    seeds = read_seeds([*settings.seeds, *order.seeds], order.seeds_file)
    need_contact(settings, map(host_of, seeds))
    if not seeds and not settings.kafka and not workspace.exists:
        raise UsageError("no seeds: headrace crawl URL… (or --seeds-file F, or `seeds` in the configuration)")
    workspace.make()
    if settings.kafka:
        await _make_topics(settings)
    slot = claim(workspace.root, "crawl", settings.streams.instance) if settings.kafka else None
    state, instance, member = (slot.path, slot.instance, slot.member) if slot else (None, "", "")
    try:
        registry = new_registry()
        async with opened(settings, workspace, create=True, state=state, instance=member, registry=registry) as parts:
            running = Crawl(settings, workspace, parts, registry, signals, reloader, out)
            async with metrics_file(settings.metrics, workspace, registry, parts.control, instance, running.stop):
                return await running.run(seeds, order)
    finally:
        if slot:
            slot.release()


class Crawl:
    """One run. Lives on the event loop; `_ending` is set once, by whoever finds the reason to end first."""

    def __init__(
        self,
        settings: Settings,
        workspace: Workspace,
        opened: Opened,
        registry: CollectorRegistry,
        signals: Signals,
        reloader: Reloader,
        out: TextIO,
    ) -> None:
        self._settings, self._workspace, self._opened, self._registry = settings, workspace, opened, registry
        self._signals, self._reloader, self._out = signals, reloader, out
        self._reload = False
        self.stop = asyncio.Event()
        """Set when it is decided that this is the end, and everything still runs."""
        self._scans: list[Scan] = []
        self._paused_by_file = False
        self._services: list[Service] = []
        self._supervisor: Supervisor | None = None

    async def run(self, seeds: list[str], order: Order) -> int:
        metrics = self._settings.metrics
        endpoint = Endpoint(
            self._registry, metrics.host, metrics.port, self._ready, self._dump, lambda: answers_of(self._services)
        )
        # First, since it may fail: a port in use must not leave half a crawl behind.
        address = await endpoint.start() if metrics.enabled else ""
        server = socket.ControlServer(self._workspace.socket, self._answer)
        try:
            control = await self._begin(seeds, order)
            print_banner(self._settings, self._workspace, control, address, self._out)
            if not self._settings.kafka:
                await server.start()
            parts = Parts(
                self._opened.streams, self._opened.control, SystemClock(), self._registry, self._workspace.root, address
            )
            self._services = services = build(list(BUILDERS), self._settings, parts)
            self._supervisor = Supervisor(
                self._opened.streams,
                services,
                shutdown_timeout=self._settings.shutdown_timeout,
                registry=self._registry,
            )
            self._signals.on_dump(lambda: log.warning("status", **self._dump()))
            self._signals.on_reload(self._reload_soon)
            return await self._supervise(self._supervisor)
        finally:
            await server.close()
            if address:
                await endpoint.close()

    async def _begin(self, seeds: list[str], order: Order) -> Control:
        """The desired state, then every link this run starts from, acknowledged before the first scan."""
        self._workspace.stop_file.unlink(missing_ok=True)
        was, told = self._opened.desired.now.settings, self._opened.desired.bounded(self._settings, seeds)
        need_contact(told, [*was.scope_roots, *was.seed_hosts], was.scope_mode)
        control = await self._opened.desired.begin(told, seeds)
        seeder = Seeder(self._opened.streams, self._settings, control)
        await ask_again(
            seeder,
            self._settings,
            self._workspace,
            control.run,
            refresh=order.refresh,
            retry_failed=order.retry_failed,
            own_store=True,
        )
        await seeder.seeds(seeds)
        await self._opened.desired.seeded()
        return control

    async def _supervise(self, supervisor: Supervisor) -> int:
        started = time.monotonic()
        view = view_for(self._out)
        running = asyncio.create_task(supervisor.run(self.stop))
        watching = asyncio.create_task(self._watch(view))
        lag = asyncio.create_task(watch_lag(self._opened.streams, EDGES, self._registry))
        try:
            await asyncio.wait({running, watching}, return_when=asyncio.FIRST_COMPLETED)
            code = watching.result() if watching.done() else 1
            self.stop.set()
            await running
        finally:
            for task in (watching, lag, running):
                task.cancel()
            await asyncio.gather(watching, lag, running, return_exceptions=True)
            view.close()
        await self._conclude(code, time.monotonic() - started)
        return code

    async def _watch(self, view: View) -> int:
        """Looks again and again, until there is a reason to end. A broker that is away for a while is none."""
        while not self._signals.stop.is_set():
            try:
                code = await self._look(view)
            except Unavailable as error:
                log.seldom("unavailable", 30.0, "cannot see how far the crawl is, trying again", why=str(error))
                code = None
            if code is not None:
                return code
            await self._sleep(SCAN_EVERY[self._settings.kafka])
        return 130

    async def _look(self, view: View) -> int | None:
        """→ the exit code, if it is over."""
        scan = await self._opened.scanner.scan()
        self._scans = [*self._scans[-1:], scan]
        view.update(status_of(scan, False))
        await self._obey_files()
        await self._obey_reload()
        if scan.control and scan.control.mode == "stopping":
            await self._drain()
            return 0
        if complete(self._scans):
            await self._opened.desired.completed()
            return 0
        return None

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._signals.stop.wait()
        except TimeoutError:
            pass

    async def _obey_files(self) -> None:
        """`workspace/pause` and `workspace/stop` do what the commands do."""
        if self._workspace.stop_file.exists():
            self._workspace.stop_file.unlink(missing_ok=True)
            await self._opened.desired.mode("stopping")
        wanted = self._workspace.pause_file.exists()
        if wanted != self._paused_by_file:
            self._paused_by_file = wanted
            await self._opened.desired.mode("paused" if wanted else "running")

    def _reload_soon(self) -> None:
        self._reload = True

    async def _obey_reload(self) -> None:
        if not self._reload:
            return
        self._reload = False
        new = self._reloader.reload()
        if new is not None:
            try:
                await self._opened.desired.adjust(new)
            except UsageError as error:
                log.error("configuration not published, the old one stays", why=str(error))

    async def _drain(self) -> None:
        """What was fetched is parsed and stored; what was not stays in the log for the next `crawl`."""
        deadline = Deadline(self._settings.shutdown_timeout)
        while not deadline.passed and not self._signals.stop.is_set():
            edges = await self._opened.streams.edges([edge for edge in EDGES if edge[0] in DRAIN_EDGES])
            busy = self._supervisor.busy() if self._supervisor else 0
            if not busy and all(edge.committed == edge.end for edge in edges):
                return
            await asyncio.sleep(0.1)

    async def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """What other commands ask over the socket."""
        match request:
            case {"do": "status"}:
                done, scan = await self._opened.scanner.twice()
                return {"status": as_json(status_of(scan, done))}
            case {"do": "pause"}:
                await self._opened.desired.mode("paused")
            case {"do": "resume"}:
                self._workspace.pause_file.unlink(missing_ok=True)
                self._paused_by_file = False
                await self._opened.desired.mode("running")
            case {"do": "stop"}:
                await self._opened.desired.mode("stopping")
            case {"do": "seed", "urls": list(urls)}:
                seeds = read_seeds(urls, None)
                return {"seeded": await plant(self._opened, self._settings, self._workspace, seeds, publish=False)}
            case {"do": "explain", "url": str(url)}:
                answer = answers_of(self._services).get("explain")
                if answer is None:
                    raise Unavailable("the crawl is still starting: ask again in a moment")
                return {"explained": await here(self._opened, answer, url)}
            case _:
                raise UsageError(f"the running crawl does not know {request.get('do')!r}")
        return {}

    def _ready(self) -> tuple[bool, str]:
        return self._supervisor.ready() if self._supervisor else (False, "starting")

    def _dump(self) -> dict[str, Any]:
        services = self._supervisor.status() if self._supervisor else {}
        latest = as_json(status_of(self._scans[-1], False)) if self._scans else {}
        return {"crawl": latest, "services": services}

    async def _conclude(self, code: int, seconds: float) -> None:
        done, scan = await self._opened.scanner.twice()
        status = status_of(scan, done)
        interrupted = code == 130
        print_summary(status, self._workspace, seconds, "interrupted" if interrupted else "", self._out)
