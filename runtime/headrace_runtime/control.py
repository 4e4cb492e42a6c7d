"""The desired state of the crawl as this process knows it: the latest row of `crawl.control`."""

import asyncio
from collections.abc import Callable

from headrace_runtime.streams.seams import Streams, Table
from headrace_schemas import codec
from headrace_schemas.messages import Control, CrawlSettings
from headrace_schemas.topics import CONTROL_KEY


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
        """Returns once this process knows `revision`: a link may be ahead of the news of its own scope."""
        while self.now.revision < revision:
            await self._table.refresh()
            if self.now.revision < revision:
                await asyncio.sleep(0.05)

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
