"""Settings → an engine. The only place that knows there are two."""

from pathlib import Path

from prometheus_client import CollectorRegistry

from headrace_runtime.clock import SystemClock
from headrace_runtime.streams.seams import Streams
from headrace_schemas.errors import UsageError
from headrace_schemas.settings import Settings


async def open_streams(
    settings: Settings,
    workspace: Path,
    *,
    state: Path | None = None,
    instance: str = "",
    registry: CollectorRegistry | None = None,
) -> Streams:
    """`state` and `instance`: this process's slot on Kafka (folder of its state, its `Slot.member`). `registry`:
    where the engine counts, if anybody looks."""
    streams = settings.streams
    if settings.kafka:
        from headrace_runtime.streams.kafka.engine import KafkaStreams

        return await KafkaStreams.open(
            bootstrap=brokers_of(streams.url),
            prefix=streams.prefix,
            partitions=settings.partitions,
            state=state or workspace / "state" / "kafka",
            instance=instance,
            session_timeout=streams.session_timeout,
            clock=SystemClock(),
            registry=registry,
        )
    if streams.url != "embedded:":
        raise UsageError(f"streams.url is {streams.url!r}; allowed: embedded: or kafka://host:port[,host:port]")
    from headrace_runtime.streams.embedded.engine import EmbeddedStreams

    return await EmbeddedStreams.open(
        workspace / "state" / "log",
        partitions=settings.partitions,
        sync=streams.sync,
        keep=streams.keep,
        clock=SystemClock(),
    )


def brokers_of(url: str) -> list[str]:
    brokers = [part for part in url.removeprefix("kafka://").rstrip("/").split(",") if part]
    if not brokers or any(":" not in broker for broker in brokers):
        raise UsageError(f"streams.url is {url!r}; allowed: kafka://host:port[,host:port]")
    return brokers
