"""`headrace run X`: one service of the fleet, on Kafka."""

import asyncio
from typing import Any

from headrace.compose import BUILDERS, build, opened
from headrace.reload import Reloader
from headrace.seeding import need_contact
from headrace.workspace import Workspace
from headrace_runtime.clock import SystemClock
from headrace_runtime.endpoint import Endpoint, new_registry
from headrace_runtime.logs import get_logger
from headrace_runtime.process import Signals
from headrace_runtime.service import Parts, Service, answers_of
from headrace_runtime.slots import claim
from headrace_runtime.streams.metered import watch_lag
from headrace_runtime.supervisor import Supervisor
from headrace_schemas.errors import UsageError
from headrace_schemas.settings import Settings
from headrace_schemas.topics import EDGES

log = get_logger("run")


async def run_service(name: str, settings: Settings, workspace: Workspace, signals: Signals, reloader: Reloader) -> int:
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
        registry = new_registry()
        async with opened(
            settings, workspace, create=True, state=slot.path, instance=slot.instance, registry=registry
        ) as parts:
            supervisor: Supervisor | None = None
            services: list[Service] = []

            def dump() -> dict[str, Any]:
                return supervisor.status() if supervisor else {}

            def ready() -> tuple[bool, str]:
                return supervisor.ready() if supervisor else (False, "starting")

            endpoint = Endpoint(
                registry, settings.metrics.host, settings.metrics.port, ready, dump, lambda: answers_of(services)
            )
            address = await endpoint.start() if settings.metrics.enabled else ""
            try:
                log.info("starting", service=name, slot=slot.instance, address=address, streams=settings.streams.url)
                services = build(
                    [name],
                    settings,
                    Parts(parts.streams, parts.control, SystemClock(), registry, workspace.root, address),
                )
                supervisor = Supervisor(
                    parts.streams, services, shutdown_timeout=settings.shutdown_timeout, registry=registry
                )
                signals.on_reload(reloader.on_signal)
                signals.on_dump(lambda: log.warning("status", **dump()))
                edges = [edge for edge in EDGES if edge[1] == name]
                lag = asyncio.create_task(watch_lag(parts.streams, edges, registry))
                try:
                    await supervisor.run(signals.stop)
                finally:
                    lag.cancel()
                    await asyncio.gather(lag, return_exceptions=True)
                log.info("stopped", service=name)
            finally:
                if address:
                    await endpoint.close()
    finally:
        slot.release()
    return 0
