"""`headrace replay`: parse again what was fetched, without asking the web for anything."""

import asyncio
import datetime
import sys
from typing import Annotated

import typer

from headrace.commands.options import DEFAULT_WORKSPACE, ConfigOption, SetOption, WorkspaceOption, load, start_logs
from headrace.workspace import Workspace
from headrace_schemas.errors import UsageError


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: headrace replay --from-store --host example.org --dry-run")(replay)


def replay(
    topic: Annotated[
        str | None, typer.Option(metavar="pages.fetched", help="From this topic (the default on Kafka).")
    ] = None,
    from_store: Annotated[
        bool, typer.Option("--from-store", help="From the stored bodies (the default embedded).")
    ] = False,
    since: Annotated[str | None, typer.Option("--from", metavar="T", help="Fetched at or after this time.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="T", help="Fetched before this time.")] = None,
    host: Annotated[str | None, typer.Option(metavar="H", help="Only pages of this host.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, write nothing.")] = False,
    config: ConfigOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    set_: SetOption = None,
) -> None:
    """Parse again what was fetched, into the index. Asks nothing of the web; may be run any number of times.

    From the topic it also brings back bodies and rows that are lost."""
    from headrace.replay import Selection, replay_store, replay_topic

    settings, _ = load(config, set_)
    start_logs(settings, "human", "warning")
    if topic not in (None, "pages.fetched"):
        raise UsageError(f"--topic {topic}: only pages.fetched can be replayed")
    if topic and from_store:
        raise UsageError("--topic and --from-store exclude each other")
    selection = Selection(_time(since, "--from"), _time(until, "--until"), host or "")
    run = replay_topic if topic or (settings.kafka and not from_store) else replay_store
    done = asyncio.run(run(settings, Workspace(workspace), selection, dry_run=dry_run))
    verb = "would change" if dry_run else "changed"
    print(f"{done.pages:,} pages parsed again, {done.changed:,} {verb}, {done.failed:,} could not be parsed")
    if done.restored:
        print(f"{done.restored:,} bytes of bodies were not in the store, and are again")
    if done.complete_from:
        moment = datetime.datetime.fromtimestamp(done.complete_from, datetime.UTC)
        print(f"the topic is kept from {moment:%Y-%m-%d %H:%M:%S} UTC on: what was fetched before is not in it")
    sys.exit(0)


def _time(text: str | None, option: str) -> float | None:
    """ISO 8601, in UTC unless it says otherwise, or seconds since the epoch."""
    if text is None:
        return None
    try:
        return float(text)
    except ValueError:
        pass
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text!r} is no time; allowed: 2026-01-31, 2026-01-31T12:00, seconds") from None
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()
