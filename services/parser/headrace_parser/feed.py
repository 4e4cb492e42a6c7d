"""One customer's line of pages into the pool, and the way their replies come back."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from headrace_parser.frames import BYTES, ParsedReply

Tag = TypeVar("Tag")


@dataclass(slots=True, eq=False)
class Page(Generic[Tag]):
    tag: Tag
    """Whatever the customer knows it by."""
    value: bytes
    """The record of `pages.fetched`, not decoded."""
    deaths: int = 0
    """Workers that ended while they were, or may have been, on this page."""
    alone: bool = False
    """To go in a frame of its own: a worker that ends with it leaves no doubt."""


class Feed(Generic[Tag]):
    """Changed by the pool and by its customer, both on the event loop. open → held → closed."""

    def __init__(
        self,
        deliver: Callable[[Sequence[tuple[Tag, ParsedReply]]], None],
        fail: Callable[[BaseException], None],
        *,
        merge: bool,
    ) -> None:
        """`deliver` is called once for all pages of one frame; `fail` when the pool cannot go on."""
        self.merge, self.fail = merge, fail
        self._deliver = deliver
        self._waiting: deque[Page[Tag]] = deque()
        self._under_way = 0
        self._settled = asyncio.Event()
        self._settled.set()
        self._held = self._closed = False

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def under_way(self) -> int:
        """Pages a worker has now."""
        return self._under_way

    def put(self, pages: Iterable[Page[Tag]]) -> None:
        if not self._held:
            self._waiting.extend(pages)

    def take(self, limit: int) -> list[Page[Tag]]:
        """The next frame: at most `limit` pages, or about `BYTES`, or the one that must go alone."""
        taken = [self._waiting.popleft()]
        size = len(taken[0].value)
        while self._waiting and len(taken) < limit and not taken[0].alone and not self._waiting[0].alone:
            size += len(self._waiting[0].value)
            if size > BYTES:
                break
            taken.append(self._waiting.popleft())
        self._count(len(taken))
        return taken

    def put_back(self, pages: Sequence[Page[Tag]]) -> None:
        """Their worker is gone: first in line again."""
        self._count(-len(pages))
        if not self._held:
            self._waiting.extendleft(reversed(pages))

    def deliver(self, replies: Sequence[tuple[Tag, ParsedReply]]) -> None:
        self._count(-len(replies))
        if not self._closed:
            self._deliver(replies)

    def hold(self) -> None:
        """What waits is dropped, what is under way is still delivered."""
        self._held = True
        self._waiting.clear()

    async def settled(self) -> None:
        """Returns when nothing is under way."""
        await self._settled.wait()

    def close(self) -> None:
        self.hold()
        self._closed = True

    def _count(self, change: int) -> None:
        self._under_way += change
        if self._under_way:
            self._settled.clear()
        else:
            self._settled.set()
