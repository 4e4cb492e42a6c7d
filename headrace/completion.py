"""Complete is proved, not guessed (design [11]): two scans in a row that agree, and nothing left to do in the second.

A process commits an input only after its outputs are acknowledged, so work in progress always shows as lag on some
edge of the topic table, or as a state that is not final.
"""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from headrace_runtime.streams.seams import Edge, Streams, Table
from headrace_schemas import codec
from headrace_schemas.messages import Control, Progress
from headrace_schemas.topics import CONTROL_KEY, EDGES


class Scan(Struct, frozen=True):
    """Everything the verdict depends on, read in this order: control, edges, progress."""

    control: Control | None
    edges: tuple[Edge, ...]
    progress: tuple[Progress, ...]

    def unfinished(self) -> str:
        """Why this scan alone does not show a complete crawl; empty if it could be one."""
        if self.control is None or self.control.revision == 0:
            return "nothing was asked for yet"
        if self.control.seeded_run < self.control.run:
            return "the seeds are still being sent"
        behind = [edge for edge in self.edges if edge.committed < edge.end]
        if behind:
            return f"{behind[0].group} has {behind[0].end - behind[0].committed} to read of {behind[0].topic}"
        if old := [row.partition for row in self.progress if row.revision < self.control.revision]:
            # What it says of its budget is said under the old limits. It reads the new ones without a message.
            return f"{len(old)} partition{' has' if len(old) == 1 else 's have'} not taken up the latest settings"
        if tasks := sum(row.in_flight + row.tasks_in_flight for row in self.progress):
            return f"{tasks:,} request{'' if tasks == 1 else 's'} in flight"
        if waiting := sum(row.queued for row in self.progress) - behind_budget(self.progress):
            return f"{waiting:,} URL{'' if waiting == 1 else 's'} queued"
        return ""

    @property
    def ends(self) -> tuple[tuple[str, int, int], ...]:
        return tuple((edge.topic, edge.partition, edge.end) for edge in self.edges)


def behind_budget(rows: Sequence[Progress]) -> int:
    """Queued URLs that wait for nothing but a spent budget. Spent is what nobody has a credit of any more: then a host
    that is left alone for a while has nothing to wait for either, though its partition has not asked for a credit."""
    if any(row.pool_spent for row in rows) and not any(row.budget_held for row in rows):
        return sum(row.needing for row in rows)
    return sum(row.behind_budget for row in rows)


class Scanner:
    """Reads scans; `tables` are those of `crawl.control` and `crawl.progress`, kept by the caller."""

    def __init__(self, streams: Streams, control: Table, progress: Table) -> None:
        self._streams, self._control, self._progress = streams, control, progress

    async def scan(self) -> Scan:
        await self._control.refresh()
        edges = await self._streams.edges(EDGES)
        await self._progress.refresh()
        row = self._control.rows.get(CONTROL_KEY)
        return Scan(
            codec.decode("crawl.control", row) if row else None,
            tuple(edges),
            tuple(codec.decode("crawl.progress", value) for value in self._progress.rows.values()),
        )

    async def twice(self, pause: float = 0.15) -> tuple[bool, Scan]:
        """Two scans now: for a command that is asked once."""
        first = await self.scan()
        if first.unfinished():
            return False, first
        await asyncio.sleep(pause)
        second = await self.scan()
        return complete((first, second)), second


def complete(scans: Sequence[Scan]) -> bool:
    """True if the last two scans prove it."""
    if len(scans) < 2:
        return False
    first, second = scans[-2:]
    return not first.unfinished() and not second.unfinished() and first.ends == second.ends
