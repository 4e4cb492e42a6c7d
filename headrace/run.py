"""`headrace run X`: one service of the fleet, on Kafka."""

import asyncio
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from headrace.compose import BUILDERS, Opened, build, opened
from headrace.metrics_file import metrics_file
from headrace.reload import Reloader
from headrace.seeding import need_contact
from headrace.workspace import Workspace
from headrace_runtime.clock import SystemClock
from headrace_runtime.endpoint import Endpoint, new_registry
from headrace_runtime.logs import get_logger
from headrace_runtime.patience import patiently, unless_told
from headrace_runtime.process import Signals
from headrace_runtime.service import Parts, Service, answers_of
from headrace_runtime.slots import Slot, claim
from headrace_runtime.streams.metered import watch_lag
from headrace_runtime.supervisor import Supervisor
from headrace_schemas.errors import UsageError
from headrace_schemas.settings import Settings
from headrace_schemas.topics import EDGES

log = get_logger("run")


async def run_service(name: str, settings: Settings, workspace: Workspace, signals: Signals, reloader: Reloader) -> int:
    if not name:
        raise UsageError(
            f"say which service to run: headrace run {'|'.join(BUILDERS)}; for a whole crawl: headrace crawl URL"
        )
    if name not in BUILDERS:
        raise UsageError(f"unknown service {name!r}; allowed: {', '.join(BUILDERS)}")
    if not settings.kafka:
        raise UsageError(
            "`headrace run` needs a broker: set streams.url (HEADRACE_STREAMS__URL=kafka://host:port); "
            "without one, `headrace crawl` runs all services in one process"
        )
    if name == "fetcher":
        need_contact(settings, ["a host that is not known yet"])
    workspace.make()
    slot = claim(workspace.root, name, settings.streams.instance)
    try:
        return await Run(name, settings, workspace, slot, signals, reloader).run()
    finally:
        slot.release()


class Run:
    """One service from its endpoint, which tells of the wait for what is not there yet, to its end."""

    def __init__(
        self, name: str, settings: Settings, workspace: Workspace, slot: Slot, signals: Signals, reloader: Reloader
    ) -> None:
        self._name, self._settings, self._workspace, self._slot = name, settings, workspace, slot
        self._signals, self._reloader = signals, reloader
        self._registry = new_registry()
        self._supervisor: Supervisor | None = None
        self._waits = "starting"
        self._services: list[Service] = []

    async def run(self) -> int:
        metrics = self._settings.metrics
        endpoint = Endpoint(
            self._registry, metrics.host, metrics.port, self._ready, self._dump, lambda: answers_of(self._services)
        )
        # First: a port in use is an error before anything is waited for, and who asks for our health is answered.
        address = await endpoint.start() if metrics.enabled else ""
        try:
            log.info(
                "starting",
                service=self._name,
                slot=self._slot.instance,
                address=address,
                streams=self._settings.streams.url,
            )
            async with AsyncExitStack() as stack:
                parts = await unless_told(
                    self._signals.stop, patiently(lambda: stack.enter_async_context(self._open()), self._wait)
                )
                if parts is not None:
                    await self._serve(parts, address)
            log.info("stopped", service=self._name)
        finally:
            if address:
                await endpoint.close()
        return 0

    def _open(self) -> AbstractAsyncContextManager[Opened]:
        slot, registry = self._slot, self._registry
        return opened(
            self._settings, self._workspace, create=True, state=slot.path, instance=slot.member, registry=registry
        )

    async def _serve(self, opened: Opened, address: str) -> None:
        settings, streams = self._settings, opened.streams
        parts = Parts(streams, opened.control, SystemClock(), self._registry, self._workspace.root, address)
        self._services = build([self._name], settings, parts)
        self._supervisor = Supervisor(
            streams, self._services, shutdown_timeout=settings.shutdown_timeout, registry=self._registry
        )
        self._signals.on_reload(self._reloader.on_signal)
        self._signals.on_dump(lambda: log.warning("status", **self._dump()))
        edges = [edge for edge in EDGES if edge[1] == self._name]
        lag = asyncio.create_task(watch_lag(streams, edges, self._registry))
        stop, slot = self._signals.stop, self._slot.instance
        try:
            async with metrics_file(settings.metrics, self._workspace, self._registry, opened.control, slot, stop):
                await self._supervisor.run(stop)
        finally:
            lag.cancel()
            await asyncio.gather(lag, return_exceptions=True)

    def _ready(self) -> tuple[bool, str]:
        return self._supervisor.ready() if self._supervisor else (False, self._waits)

    def _wait(self, why: str) -> None:
        self._waits = f"waits: {why}"

    def _dump(self) -> dict[str, Any]:
        return self._supervisor.status() if self._supervisor else {}
