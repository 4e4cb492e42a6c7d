"""`headrace topics`: make the topics on Kafka, and look at them."""

import asyncio
import sys

import typer

from headrace.commands.options import DEFAULT_WORKSPACE, ConfigOption, SetOption, WorkspaceOption, load, start_logs
from headrace.workspace import Workspace
from headrace_runtime import process
from headrace_schemas.errors import UsageError
from headrace_schemas.settings import Settings

topics = typer.Typer(help="Make the topics on Kafka, and look at them.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(topics, name="topics")


@topics.command(epilog="Example: HEADRACE_STREAMS__URL=kafka://127.0.0.1:9092 headrace topics create")
def create(config: ConfigOption = None, workspace: WorkspaceOption = DEFAULT_WORKSPACE, set_: SetOption = None) -> None:
    """Make every topic that is not there yet; waits for a broker that is not there yet either."""
    from headrace_runtime.patience import patiently, unless_told
    from headrace_runtime.streams.kafka.topics import create_topics
    from headrace_runtime.streams.open import brokers_of

    settings, _ = load(config, set_)
    start_logs(settings, "human", "warning")
    if not settings.kafka:
        raise UsageError("the embedded log makes its topics by itself; for Kafka set streams.url=kafka://host:port")
    streams = settings.streams
    where = (brokers_of(streams.url), streams.prefix, settings.partitions, streams.replication)

    async def make(signals: process.Signals) -> int:
        made = await unless_told(signals.stop, patiently(lambda: create_topics(*where)))
        if made is not None:
            print("\n".join(f"created {name}" for name in made) if made else "all topics are there already")
        return process.INTERRUPTED if made is None else process.DONE  # by any signal: who waits for it must not go on

    sys.exit(process.run(make))


@topics.command(epilog="Example: headrace topics show")
def show(config: ConfigOption = None, workspace: WorkspaceOption = DEFAULT_WORKSPACE, set_: SetOption = None) -> None:
    """Each topic, from where it is kept, how far it goes, and how far each group has read (sums over partitions)."""
    settings, _ = load(config, set_)
    start_logs(settings, "human", "warning")
    asyncio.run(_show(settings, Workspace(workspace)))


async def _show(settings: Settings, workspace: Workspace) -> None:
    from headrace.compose import opened
    from headrace_schemas.topics import EDGES, TOPICS

    async with opened(settings, workspace, create=False) as parts:
        begins = {name: sum(await parts.streams.begins(name)) for name in {topic for topic, _ in EDGES}}
        edges = await parts.streams.edges(EDGES)
    print(f"{'topic':<20} {'read by':<10} {'partitions':>10} {'kept from':>12} {'end':>12} {'lag':>8}")
    for topic in TOPICS.values():
        for group in topic.readers:
            mine = [edge for edge in edges if (edge.topic, edge.group) == (topic.name, group)]
            end, lag = sum(edge.end for edge in mine), sum(edge.end - edge.committed for edge in mine)
            print(f"{topic.name:<20} {group:<10} {len(mine):>10} {begins[topic.name]:>12,} {end:>12,} {lag:>8,}")
