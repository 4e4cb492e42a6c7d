"""Settings → running parts. `headrace run X`, the all-in-one and the short commands are all composed here."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry

from headrace import socket
from headrace.completion import Scanner
from headrace.desired import Desired
from headrace.layout import assert_layout
from headrace.workspace import Workspace
from headrace_runtime.clock import Deadline
from headrace_runtime.control import ControlWatch
from headrace_runtime.service import Parts, Service
from headrace_runtime.streams.open import open_streams
from headrace_runtime.streams.seams import Streams
from headrace_runtime.vitals import Vitals
from headrace_schemas.errors import WorkspaceBusy
from headrace_schemas.settings import Settings

_PATIENCE = 5.0  # seconds


def _frontier(settings: Settings, parts: Parts) -> Service:
    from headrace_frontier.service import build

    return build(settings, parts)


def _fetcher(settings: Settings, parts: Parts) -> Service:
    from headrace_fetcher.service import build

    return build(settings, parts)


def _parser(settings: Settings, parts: Parts) -> Service:
    from headrace_parser.service import build

    return build(settings, parts)


def _storer(settings: Settings, parts: Parts) -> Service:
    from headrace_storer.service import build

    return build(settings, parts)


# Imported when built: a short command, or a process of one service, does not pay for the others.
BUILDERS: dict[str, Callable[[Settings, Parts], Service]] = {
    "frontier": _frontier,
    "fetcher": _fetcher,
    "parser": _parser,
    "storer": _storer,
}
"""In the order of the flow, which is the order in which they stop: each drains what the one before it sent."""


@dataclass(frozen=True)
class Opened:
    """A crawl's streams and the tables over them, for as long as the `async with` lasts."""

    streams: Streams
    control: ControlWatch
    desired: Desired
    scanner: Scanner


@asynccontextmanager
async def opened(
    settings: Settings,
    workspace: Workspace,
    *,
    create: bool,
    state: Path | None = None,
    instance: str = "",
    registry: CollectorRegistry | None = None,
) -> AsyncIterator[Opened]:
    """`create`: may make the workspace and write its layout; a command that only looks must not."""
    if create:
        workspace.make()
    elif not settings.kafka:
        workspace.must_exist()
    streams = await _open(settings, workspace, state, instance, registry, patience=_PATIENCE if create else 0.0)
    try:
        table = await streams.table("crawl.control")
        progress = await streams.table("crawl.progress")
        try:
            await assert_layout(streams, table, settings, create=create)
            yield Opened(streams, ControlWatch(table), Desired(streams, table), Scanner(streams, table, progress))
        finally:
            await progress.close()
            await table.close()
    finally:
        await streams.close()


async def _open(
    settings: Settings,
    workspace: Workspace,
    state: Path | None,
    instance: str,
    registry: CollectorRegistry | None,
    patience: float,
) -> Streams:
    """A command that only looks holds the log for a moment: it must not turn away the crawl that starts just then."""
    deadline = Deadline(patience)
    while True:
        try:
            return await open_streams(settings, workspace.root, state=state, instance=instance, registry=registry)
        except WorkspaceBusy:
            if settings.kafka or deadline.passed or await socket.listens(workspace.socket):
                raise
        await asyncio.sleep(0.05)


def build(names: Sequence[str], settings: Settings, parts: Parts) -> list[Service]:
    Vitals(parts.registry, names, parts.workspace).watch(parts.control)
    return [BUILDERS[name](settings, parts) for name in names]
