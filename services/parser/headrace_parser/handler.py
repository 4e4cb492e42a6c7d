"""The parser's part of one lane: records to the pool, what comes back to the desk."""

import asyncio
from collections.abc import Sequence

from headrace_parser.feed import Page
from headrace_parser.frames import ParsedReply
from headrace_parser.pool import ParserPool
from headrace_runtime.clock import Clock, Deadline
from headrace_runtime.streams.loops import Desk
from headrace_runtime.streams.poison import bury
from headrace_runtime.streams.seams import Lane, Record, Send
from headrace_schemas import codec
from headrace_schemas.errors import Poison, TooNew


class LaneWorker:
    """Decodes nothing: a record goes to a worker as it came, and what is to be sent comes back encoded."""

    def __init__(self, lane: Lane, desk: Desk, pool: ParserPool, clock: Clock) -> None:
        self._lane, self._desk, self._pool, self._clock = lane, desk, pool, clock
        self._feed = pool.open(self._deliver, desk.fail, merge=True)

    def accept(self, records: Sequence[Record]) -> None:
        pages = []
        for record in records:
            try:
                codec.revision_of(record.value)
            except Poison as error:
                self._desk.finish(record, [self._bury(record, error)])
            except TooNew as error:
                self._desk.fail(error)
                return
            else:
                pages.append(Page(record, record.value))
        self._pool.put(self._feed, pages)

    async def drain(self, deadline: Deadline) -> None:
        self._feed.hold()
        try:
            async with asyncio.timeout(deadline.left):
                await self._feed.settled()
        except TimeoutError:
            pass
        self._pool.drop(self._feed)

    def _deliver(self, replies: Sequence[tuple[Record, ParsedReply]]) -> None:
        """All of one frame in one turn, so that they are committed in one unit: the links of all lie with the first.
        So none of them is done if one has to wait for an upgrade."""
        too_new = next((reply.why for _, reply in replies if reply.verdict == "too_new"), "")
        if too_new:
            self._desk.fail(TooNew(too_new))
            return
        for record, reply in replies:
            self._desk.finish(record, self._sends(record, reply))

    def _sends(self, record: Record, reply: ParsedReply) -> list[Send]:
        sends = [Send("links.discovered", partition, value) for partition, value in reply.links]
        if reply.parsed:
            sends.append(Send("pages.parsed", self._lane.partition, reply.parsed, record.key))
        if reply.why:
            sends.append(self._bury(record, reply.why))
        return sends

    def _bury(self, record: Record, why: Poison | str) -> Send:
        return bury(record, self._lane.group, why, self._clock.now())
