"""What was queued and the settings turned away, kept until settings let it in again.

    a | key (16)  →  Item

A link is found once: without this, a scope that was too narrow for one run would have lost the backlog for good. What a
page links to while the settings are against it is not kept: policy being what it is, that is most of the web.
"""

import msgspec

from headrace_frontier.queues import Item
from headrace_frontier.turn import Turn
from headrace_runtime.streams.seams import StateView, Unit
from headrace_schemas.messages import Link

ASIDE = b"a"
_END = b"b"
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Item).decode


class Aside:
    def __init__(self, view: StateView, most: int) -> None:
        """`most`: URLs looked at in one unit."""
        self._view, self._most = view, most
        self._next: bytes | None = None
        """The first key not looked at under the settings of now; None: all were."""

    @property
    def looking(self) -> bool:
        return self._next is not None

    def look(self) -> None:
        """The settings are new: from the beginning."""
        self._next = ASIDE

    def keep(self, unit: Unit, item: Item) -> None:
        unit.put(ASIDE + item.key, _encode(item))

    def back(self, turn: Turn, max_hops: int) -> tuple[Link, ...]:
        """Some of those that the settings let in now, as links that are found again."""
        if self._next is None:
            return ()
        links: list[Link] = []
        start, self._next = self._next, None
        for looked_at, (key, raw) in enumerate(self._view.scan(start, _END)):
            if looked_at >= self._most:
                self._next = key
                break
            item = _decode(raw)
            if turn.policy.judge(item.url, item.depth, item.hop, max_hops).allowed:
                turn.unit.delete(key)
                links.append(_found_again(item))
        return tuple(links)


def _found_again(item: Item) -> Link:
    return Link(
        item.url,
        item.key,
        item.depth,
        item.referrer,
        item.hop,
        item.chain,
        etag=item.etag,
        last_modified=item.last_modified,
    )
