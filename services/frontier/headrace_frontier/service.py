"""The composition: settings and finished parts → the frontier."""

from collections.abc import Mapping, Sequence
from typing import Any

from headrace_frontier.circumstances import Circumstances
from headrace_frontier.explain import Explainer
from headrace_frontier.handler import FrontierHandler, Wiring
from headrace_frontier.look import Around, Rules
from headrace_frontier.metrics import Metrics
from headrace_frontier.tuning import Tuning
from headrace_frontier.watch import Watcher
from headrace_runtime.service import Parts, Service
from headrace_runtime.streams.janitor import Janitor
from headrace_runtime.streams.loops import run_serial
from headrace_runtime.streams.seams import Lane, Record, StateView
from headrace_schemas import codec
from headrace_schemas.errors import Poison, Unavailable
from headrace_schemas.settings import Settings
from headrace_schemas.topics import FRONTIER, inputs_of, kept_after_read
from headrace_schemas.urls import Canonicaliser, Partitioner

BATCH = 100
"""Records in one unit. A record may hold a thousand links: more would hold up the event loop for too long."""


def build(settings: Settings, parts: Parts) -> Service:
    circumstances = Circumstances(parts.control)
    wiring = Wiring(
        circumstances=circumstances,
        partitioner=Partitioner(settings.partitions, settings.politeness.key),
        retry=settings.retry,
        robots=settings.robots,
        breaker=settings.breaker,
        metrics=Metrics(parts.registry),
        tuning=_tuning(settings.partitions),
        address=parts.address,
    )

    streams = settings.streams
    janitor = Janitor(parts.streams, kept_after_read(streams.keep), streams.janitor_interval, parts.registry)
    explaining = explainer(settings)
    views: dict[int, StateView] = {}

    async def prepare(records: Sequence[Record]) -> None:
        """A link may come before the news of the scope it belongs to: judged by the old one it would be lost."""
        await parts.control.at_least(max(map(_revision, records), default=0))

    async def serve(lane: Lane) -> None:
        handler = FrontierHandler(lane.partition, lane.state, wiring)
        views[lane.partition] = state = lane.state
        try:
            async with janitor.beside(lane):
                await run_serial(lane, handler, parts.clock, batch=BATCH, prepare=prepare)
        finally:
            handler.close()
            if views.get(lane.partition) is state:
                del views[lane.partition]

    def explain(query: Mapping[str, str]) -> dict[str, Any]:
        found, partition = explaining.find(query.get("url", ""))
        if partition not in views:
            raise Unavailable(f"partition {partition} is not here")
        around = Around(circumstances.control, circumstances.backlog, parts.clock.now())
        return explaining.explain(views[partition], found, around)

    def status() -> dict[str, Any]:
        lanes = circumstances.lanes.items()
        return {
            "backlog": circumstances.backlog,
            "partitions": {str(partition): {"in_flight": lane.in_flight} for partition, lane in sorted(lanes)},
        }

    return Service(
        group=FRONTIER,
        topics=inputs_of(FRONTIER),
        serve=serve,
        stateful=True,
        background=(Watcher(circumstances, parts.streams).run,),
        status=status,
        answers={"explain": explain},
    )


def explainer(settings: Settings) -> Explainer:
    """Also for a command that looks at a workspace nobody runs."""
    partitioner = Partitioner(settings.partitions, settings.politeness.key)
    rules = Rules(partitioner, settings.retry, settings.robots, _tuning(settings.partitions))
    return Explainer(Canonicaliser(settings.canonical), rules)


def _tuning(partitions: int) -> Tuning:
    """The caches are per lane, and one process may own every partition."""
    usual = Tuning()
    return Tuning(
        hosts_cached=max(1_000, usual.hosts_cached // partitions),
        origins_cached=max(1_000, usual.origins_cached // partitions),
        robots_cached_bytes=max(1024 * 1024, usual.robots_cached_bytes // partitions),
    )


def _revision(record: Record) -> int:
    try:
        return codec.revision_of(record.value)
    except Poison:  # buried when it is handled
        return 0
