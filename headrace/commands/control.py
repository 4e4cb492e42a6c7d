"""Commands that speak to a crawl, running or not: status, seed, pause, resume, stop, reset."""

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace import socket
from headrace.commands.options import DEFAULT_WORKSPACE, ConfigOption, SetOption, WorkspaceOption, load, start_logs
from headrace.workspace import Workspace
from headrace_schemas.errors import UsageError
from headrace_schemas.messages import Mode
from headrace_schemas.settings import Settings

if TYPE_CHECKING:
    from headrace.completion import Scan, Scanner

_IDLE = 3.0  # seconds a command may take to find out


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: headrace status --json")(status)
    app.command(epilog="Example: headrace seed https://example.org/new-section/")(seed)
    app.command(epilog="Example: headrace pause && headrace status")(pause)
    app.command(epilog="Example: headrace resume")(resume)
    app.command(epilog="Example: headrace stop")(stop)
    app.command(epilog="Example: headrace reset --workspace old-crawl --yes")(reset)


def status(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
    config: ConfigOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    set_: SetOption = None,
) -> None:
    """How far the crawl is, and why it is not complete."""
    settings = _settings(config, set_)
    found = asyncio.run(_status(settings, Workspace(workspace)))
    if as_json:
        print(json.dumps(found))
        return
    from msgspec import convert

    from headrace.status import Status, as_lines

    print("\n".join(as_lines(convert(found, Status))))


async def _status(settings: Settings, workspace: Workspace) -> dict[str, Any]:
    from headrace.compose import opened
    from headrace.status import as_json, status_of

    async def looked() -> dict[str, Any]:
        async with opened(settings, workspace, create=False) as parts:
            done, scan = await parts.scanner.twice()
            idle = 0.0 if done or not settings.kafka else await _idle(parts.scanner, scan)
            return {"status": as_json(status_of(scan, done, running=settings.kafka, idle=idle))}

    if settings.kafka:
        reply = await looked()
    else:
        workspace.must_exist()
        reply = await socket.ask_or(workspace.socket, {"do": "status"}, looked)
    found: dict[str, Any] = reply["status"]
    return found


async def _idle(scanner: "Scanner", scan: "Scan") -> float:
    """Seconds for which no task was read although there are some: longer than a polite fetcher waits between two."""
    from headrace.status import TASKS, lag_of

    if scan.control is None or scan.control.mode != "running" or not lag_of(scan, *TASKS):
        return 0.0
    seconds = min(_IDLE, 0.5 + scan.control.settings.delay)
    await asyncio.sleep(seconds)
    before, after = (_read(look, TASKS) for look in (scan, await scanner.scan()))
    return seconds if before == after else 0.0


def _read(scan: "Scan", which: tuple[str, str]) -> list[int]:
    return [edge.committed for edge in scan.edges if (edge.topic, edge.group) == which]


def seed(
    urls: Annotated[list[str] | None, typer.Argument(metavar="URL...", help="URLs to start from.")] = None,
    file: Annotated[Path | None, typer.Option("--file", metavar="F", help="Seeds, one a line.")] = None,
    refresh: Annotated[
        bool, typer.Option("--refresh", help="Kafka only: ask again for all pages of the index too, conditionally.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Kafka only: try the failed URLs of the index once more.")
    ] = False,
    config: ConfigOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    set_: SetOption = None,
) -> None:
    """Add URLs to a crawl; its scope grows by them."""
    from headrace.seeding import read_seeds

    settings = _settings(config, set_)
    found = read_seeds(urls or (), file)
    again = [name for name, asked in (("--refresh", refresh), ("--retry-failed", retry_failed)) if asked]
    if again and not settings.kafka:
        raise UsageError(f"{again[0]} adds to a fleet on Kafka; embedded it is headrace crawl {again[0]}")
    if not found and not again:
        raise UsageError("no URL given: headrace seed URL… or --file F")
    count = asyncio.run(_seed(settings, Workspace(workspace), found, refresh, retry_failed))
    print(f"{count:,} {'URL' if again else 'seed'}{'s' if count != 1 else ''} accepted")


async def _seed(settings: Settings, workspace: Workspace, urls: list[str], refresh: bool, retry_failed: bool) -> int:
    from headrace.compose import opened
    from headrace.planting import plant

    if not settings.kafka:
        workspace.make()
        reply = await socket.ask(workspace.socket, {"do": "seed", "urls": urls})
        if reply is not None:
            return int(reply["seeded"])
    async with opened(settings, workspace, create=True) as parts:
        if not urls and parts.desired.now.revision == 0:
            raise UsageError("no crawl was started here yet, and its seeds are its scope: headrace seed URL…")
        return await plant(parts, settings, workspace, urls, refresh=refresh, retry_failed=retry_failed)


def pause(config: ConfigOption = None, workspace: WorkspaceOption = DEFAULT_WORKSPACE, set_: SetOption = None) -> None:
    """No request starts after one second; nothing is lost."""
    asyncio.run(_mode(_settings(config, set_), Workspace(workspace), "pause", "paused"))
    print("paused: `headrace resume` goes on")


def resume(config: ConfigOption = None, workspace: WorkspaceOption = DEFAULT_WORKSPACE, set_: SetOption = None) -> None:
    """Go on after a pause."""
    settings, place = _settings(config, set_), Workspace(workspace)
    if not settings.kafka:
        place.must_exist()
    if place.root.is_dir():
        place.pause_file.unlink(missing_ok=True)
    asyncio.run(_mode(settings, place, "resume", "running"))
    print("running")


def stop(config: ConfigOption = None, workspace: WorkspaceOption = DEFAULT_WORKSPACE, set_: SetOption = None) -> None:
    """End this run: what is under way is finished and stored, the rest waits for the next `crawl`."""
    asyncio.run(_mode(_settings(config, set_), Workspace(workspace), "stop", "stopping"))
    print("stopping: what is under way is finished; `headrace crawl` goes on later")


async def _mode(settings: Settings, workspace: Workspace, verb: str, mode: Mode) -> None:
    from headrace.compose import opened

    async def written() -> dict[str, Any]:
        async with opened(settings, workspace, create=False) as parts:
            if mode == "stopping" and not settings.kafka:
                raise UsageError(f"no crawl is running in {workspace.root}")
            if parts.desired.now.revision == 0:
                raise UsageError("no crawl was started here yet: headrace crawl URL, or headrace seed URL")
            await parts.desired.mode(mode)
            return {}

    if settings.kafka:
        await written()
        return
    workspace.must_exist()
    await socket.ask_or(workspace.socket, {"do": verb}, written)


def reset(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    config: ConfigOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    set_: SetOption = None,
) -> None:
    """Delete everything this crawl knows and stored."""
    settings = _settings(config, set_)
    place = Workspace(workspace)
    if not settings.kafka:
        place.must_exist()
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("reset deletes all pages and state: say --yes")
        what = f"{workspace} and the topics on {settings.streams.url}" if settings.kafka else str(workspace)
        typer.confirm(f"Delete all pages and state in {what}? (stop its services first)", abort=True)
    asyncio.run(_reset(settings, place))
    print(f"{workspace} is empty")


async def _reset(settings: Settings, workspace: Workspace) -> None:
    from headrace.compose import opened

    if settings.kafka:
        from headrace_runtime.streams.kafka.topics import delete_topics
        from headrace_runtime.streams.open import brokers_of

        await delete_topics(brokers_of(settings.streams.url), settings.streams.prefix)
    else:
        async with opened(settings, workspace, create=False):
            pass  # opening takes the lock: a crawl that runs here is not pulled from under itself
    for folder in (workspace.state, workspace.store, workspace.root / "logs"):
        shutil.rmtree(folder, ignore_errors=True)
    for file in (*workspace.root.glob("index.sqlite*"), workspace.socket, workspace.pause_file, workspace.stop_file):
        file.unlink(missing_ok=True)


def _settings(config: Path | None, sets: list[str] | None) -> Settings:
    settings, _ = load(config, sets)
    start_logs(settings, "human", "warning")
    return settings
