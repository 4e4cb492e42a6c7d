"""Metrics as CSV beside a running process, if the settings want them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry

from headrace.workspace import Workspace
from headrace_runtime.control import ControlWatch
from headrace_runtime.metrics_csv import MetricsCsv
from headrace_schemas.settings import MetricSettings


@asynccontextmanager
async def metrics_file(
    settings: MetricSettings,
    workspace: Workspace,
    registry: CollectorRegistry,
    control: ControlWatch,
    instance: str,
    stop: asyncio.Event,
) -> AsyncIterator[None]:
    """Written every so often, and a last time at `stop`, which at the latest is set on the way out of here."""
    if not settings.csv:
        yield
        return
    csv = MetricsCsv(registry, lambda: workspace.metrics(control.now.run, instance), settings.csv_interval)
    writing = asyncio.create_task(csv.run(stop))
    try:
        yield
    finally:
        stop.set()
        await writing
