"""`headrace frontier check`: recounts what the frontier keeps by adding and subtracting."""

import asyncio
import json
from typing import Annotated, Any

import typer

from headrace.commands.options import DEFAULT_WORKSPACE, ConfigOption, SetOption, WorkspaceOption, load, start_logs
from headrace.invocation import how_to
from headrace.workspace import Workspace
from headrace_schemas.errors import UsageError, WorkspaceBusy
from headrace_schemas.settings import Settings

_SHOWN = 1_000
"""Differences told: a state that is broken throughout would name every URL."""

frontier = typer.Typer(help="What the frontier keeps, looked at from outside.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(frontier, name="frontier", rich_help_panel=None)


@frontier.callback()
def _frontier() -> None:
    """What the frontier keeps, looked at from outside."""


@frontier.command(epilog="Example: headrace frontier check --workspace old-crawl")
def check(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
    config: ConfigOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    set_: SetOption = None,
) -> None:
    """Recount every URL and compare with the counters, queues, times and budgets kept of them. No crawl may run."""
    settings, _ = load(config, set_)
    start_logs(settings, "human", "warning")
    if settings.kafka:
        raise UsageError("frontier check looks at the embedded log; on Kafka a state is with its owner")
    place = Workspace(workspace)
    try:
        found = asyncio.run(_checked(settings, place))
    except WorkspaceBusy:
        raise WorkspaceBusy(
            f"a crawl is running in {workspace}, and what changes cannot be recounted: "
            f"end it first (`{how_to('stop', place.root)}`)"
        ) from None
    if as_json:
        print(json.dumps(found))
    else:
        _print(found)
    if not found["agree"]:
        raise typer.Exit(1)


def _print(found: dict[str, Any]) -> None:
    head = f"{_count(found['urls'], 'URL')}, {_count(found['hosts'], 'host')}"
    if found["agree"]:
        print(f"{head}: all counters agree")
        return
    for line in found["differences"]:
        print(line)
    more = f" (the first {_SHOWN:,} are shown)" if found["count"] > _SHOWN else ""
    print(f"{head}: {_count(found['count'], 'difference')}{more}")


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


async def _checked(settings: Settings, workspace: Workspace) -> dict[str, Any]:
    from headrace.compose import opened
    from headrace_frontier.audit import Audit
    from headrace_runtime.streams.seams import Peekable
    from headrace_schemas import codec
    from headrace_schemas.topics import FRONTIER, partition_key

    urls = hosts = count = 0
    lines: list[str] = []
    async with opened(settings, workspace, create=False) as parts:
        assert isinstance(parts.streams, Peekable)
        table = await parts.streams.table("crawl.progress")
        for partition in range(parts.streams.partitions):
            raw = table.rows.get(partition_key(partition))
            audit = Audit(parts.streams.peek(FRONTIER, partition))
            for line in audit.differences(codec.decode("crawl.progress", raw) if raw else None):
                count += 1
                if len(lines) < _SHOWN:
                    lines.append(line if parts.streams.partitions == 1 else f"partition {partition}: {line}")
            urls, hosts = urls + audit.urls, hosts + audit.hosts
        await table.close()
    return {"agree": not count, "urls": urls, "hosts": hosts, "count": count, "differences": lines}
