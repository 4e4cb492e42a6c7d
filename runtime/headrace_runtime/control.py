"""The desired state of the crawl as this process knows it: the latest row of `crawl.control`."""

import asyncio
from collections.abc import Callable

from headrace_runtime.logs import get_logger
from headrace_runtime.streams.seams import Streams, Table
from headrace_schemas import codec
from headrace_schemas.errors import Unavailable
from headrace_schemas.messages import Control, CrawlSettings
from headrace_schemas.topics import CONTROL_KEY

log = get_logger("control")

RETRY = 0.5  # seconds before the table is asked again


class ControlWatch:
    """Kept fresh by the table; read by anyone on the event loop."""

    def __init__(self, table: Table) -> None:
        self.now = Control(0, CrawlSettings(), mode="paused")
        """Revision 0 until the first `crawl` or `seed` has said what is wanted."""
        self._table = table
        self._watchers: list[Callable[[Control], None]] = []
        table.watch(self._changed)

    @classmethod
    async def open(cls, streams: Streams) -> "ControlWatch":
        return cls(await streams.table("crawl.control"))

    def watch(self, changed: Callable[[Control], None]) -> None:
        self._watchers.append(changed)
        changed(self.now)

    async def at_least(self, revision: int) -> None:
        """Catches up if a message knows of a later revision than this process: its scope may be news here.

        A revision is acknowledged before anything that carries it is sent, so reading the topic to its end is enough.
        A message that still claims a later one is wrong about it, and must not hold up the others.
        """
        if self.now.revision >= revision:
            return
        await self._refreshed()
        if self.now.revision < revision:
            log.seldom(
                "ahead", 60.0, "a message of a revision that was never written", named=revision, known=self.now.revision
            )

    async def _refreshed(self) -> None:
        """Waits as long as it takes: judging by an old scope would turn links away for good."""
        while True:
            try:
                return await self._table.refresh()
            except Unavailable as error:
                log.seldom("unavailable", 60.0, "waiting for the desired state", why=str(error))
                await asyncio.sleep(RETRY)

    async def close(self) -> None:
        await self._table.close()

    def _changed(self, key: bytes, value: bytes) -> None:
        if key != CONTROL_KEY:
            return
        control: Control = codec.decode("crawl.control", value)
        if control.revision >= self.now.revision:
            self.now = control
            for watcher in self._watchers:
                watcher(control)
