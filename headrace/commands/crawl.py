"""`headrace crawl` and `headrace run`: the two ways to run services."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.commands.options import (
    DEFAULT_WORKSPACE,
    ConfigOption,
    SetOption,
    WorkspaceOption,
    load,
    start_logs,
)
from headrace.reload import Reloader
from headrace.workspace import Workspace
from headrace_runtime import process


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: headrace crawl https://example.org --contact you@example.org --max-pages 500")(crawl)
    app.command(epilog="Example: HEADRACE_STREAMS__URL=kafka://127.0.0.1:9092 headrace run fetcher")(run)


def crawl(
    seeds: Annotated[list[str] | None, typer.Argument(metavar="SEED...", help="URLs to start from.")] = None,
    config: ConfigOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    max_pages: Annotated[int | None, typer.Option(metavar="N", help="Fetch exactly this many pages, then end.")] = None,
    max_depth: Annotated[int | None, typer.Option(metavar="N", help="Links between a seed and the last page.")] = None,
    scope: Annotated[str | None, typer.Option(metavar="host|domain|all", help="Which links are followed.")] = None,
    delay: Annotated[float | None, typer.Option(metavar="S", help="Seconds between requests to one host.")] = None,
    contact: Annotated[str | None, typer.Option(metavar="TEXT", help="Your URL or e-mail, for the User-Agent.")] = None,
    seeds_file: Annotated[Path | None, typer.Option(metavar="F", help="Seeds, one a line.")] = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Ask again, conditionally, for all known pages.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Try failed URLs once more.")] = False,
    allow_private: Annotated[
        list[str] | None, typer.Option(metavar="CIDR", help="Private addresses that may be reached; may be repeated.")
    ] = None,
    set_: SetOption = None,
) -> None:
    """Crawl from the seeds to the end, in this process. Run it again to resume."""
    from headrace.crawl import Order
    from headrace.crawl import crawl as run_crawl

    flags = [
        ("limits.max_pages", max_pages),
        ("limits.max_depth", max_depth),
        ("scope.mode", scope),
        ("politeness.delay", delay),
        ("contact", contact),
        ("fetch.allow_private", allow_private),
    ]
    settings, sources = load(config, set_, flags)
    # The progress says what a person wants to know; the log only what needs attention, unless asked for.
    start_logs(settings, "human", None if "log.level" in sources else "warning")
    order = Order(tuple(seeds or ()), seeds_file or _beside(config, seeds), refresh, retry_failed)
    reloader = Reloader(settings, lambda: load(config, set_, flags)[0])
    place = Workspace(workspace)
    sys.exit(process.run(lambda signals: run_crawl(settings, place, order, signals, reloader, sys.stdout)))


def _beside(config: Path | None, seeds: list[str] | None) -> Path | None:
    """`headrace configure` writes seeds.txt beside crawl.yaml: used when no seed is named."""
    file = (config.parent if config else Path()) / "seeds.txt"
    return file if not seeds and file.is_file() else None


def run(
    service: Annotated[str, typer.Argument(metavar="frontier|fetcher|parser|storer", help="Which service.")] = "",
    config: ConfigOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    set_: SetOption = None,
) -> None:
    """Run one service on Kafka, until it is told to stop (SIGTERM)."""
    from headrace.run import run_service

    settings, _ = load(config, set_)
    start_logs(settings, "json")
    reloader = Reloader(settings, lambda: load(config, set_)[0])
    sys.exit(process.run(lambda signals: run_service(service, settings, Workspace(workspace), signals, reloader)))
