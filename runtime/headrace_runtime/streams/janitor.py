"""Has streams delete, now and then, what was read and is old enough: beside the lane of partition 0, so one process."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from prometheus_client import CollectorRegistry, Counter

from headrace_runtime.logs import get_logger
from headrace_runtime.streams.seams import Lane, Streams, Trimmable

_FIRST = 60.0
"""Seconds after a takeover before the first pass, at the most: processes may change more often than the interval."""

log = get_logger("janitor")


class Janitor:
    """At most one per registry. Streams that delete by themselves need none, and then it does nothing."""

    def __init__(
        self, streams: Streams, keep: Mapping[str, float], interval: float, registry: CollectorRegistry
    ) -> None:
        self._streams = streams if interval and isinstance(streams, Trimmable) else None
        self._keep, self._interval = keep, interval
        self._deleted = Counter(
            "headrace_deleted_records", "Offsets deleted as read by all and old enough", ["topic"], registry=registry
        )

    @asynccontextmanager
    async def beside(self, lane: Lane) -> AsyncIterator[None]:
        """At work for as long as the block runs, if this lane is the one. Nothing it meets reaches the lane."""
        if self._streams is None or lane.partition != 0:
            yield
            return
        work = asyncio.create_task(self._run(lane, self._streams), name="janitor")
        try:
            yield
        finally:
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)

    async def _run(self, lane: Lane, streams: Trimmable) -> None:
        await asyncio.sleep(min(_FIRST, self._interval))
        while True:
            try:
                deleted = await streams.trim(self._keep, lambda: lane.stopping is None and lane.owned())
            except Exception as error:
                log.once("trouble", "topics not trimmed, tried again later", error=str(error) or repr(error))
            else:
                log.forget("trouble")
                for topic, count in deleted.items():
                    self._deleted.labels(topic).inc(count)
                if any(deleted.values()):
                    log.info("topics trimmed", **{topic: count for topic, count in deleted.items() if count})
            await asyncio.sleep(self._interval)
