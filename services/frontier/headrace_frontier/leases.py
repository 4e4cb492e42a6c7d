"""What is released and not answered. A lease never ends by time: the log does not lose a committed task.

All of them are held in memory as well: a window's worth, read once when the lane begins.
"""

from collections import Counter

import msgspec
from msgspec import Struct

from headrace_frontier.queues import Item
from headrace_runtime.streams.seams import StateView, Unit
from headrace_schemas.messages import FetchTask, TaskKind
from headrace_schemas.urls import origin_of

LEASE = b"f"
_END = b"g"
_encode = msgspec.msgpack.Encoder().encode


class Lease(Struct, frozen=True, array_like=True):
    """All that a result, or a release again, needs."""

    fetch_id: int
    kind: TaskKind
    host: str
    item: Item
    delay: float
    valid_until: float
    released_at: float
    run: int = 0
    credit: bool = False
    """A credit of `max_pages` is reserved for it."""


_decode = msgspec.msgpack.Decoder(Lease).decode


def id_key(fetch_id: int) -> bytes:
    """Also the record key of the task."""
    return fetch_id.to_bytes(8, "big")


def task_of(lease: Lease) -> FetchTask:
    item = lease.item
    return FetchTask(
        fetch_id=lease.fetch_id,
        url=item.url,
        key=item.key,
        host=lease.host,
        delay=lease.delay,
        valid_until=lease.valid_until,
        kind=lease.kind,
        depth=item.depth,
        hop=item.hop,
        referrer=item.referrer,
        attempt=item.attempt + 1,
        released_at=lease.released_at,
        etag=item.etag,
        last_modified=item.last_modified,
        page_type=item.page_type,
        chain=item.chain,
        run=lease.run,
    )


class Leases:
    def __init__(self, view: StateView, oldest: int) -> None:
        """`oldest`: no lease has a smaller number; a scan from 0 would pass a tombstone for every page ever fetched."""
        self._leases: dict[int, Lease] = {}
        self._hosts: Counter[str] = Counter()
        self._asked: set[str] = set()
        for _, raw in view.scan(LEASE + id_key(oldest), _END):
            self._remember(_decode(raw))

    def __len__(self) -> int:
        return len(self._leases)

    def of_host(self, host: str) -> int:
        return self._hosts[host]

    def asked(self, origin: str) -> bool:
        """Whether the robots.txt of `origin` is under way."""
        return origin in self._asked

    @property
    def oldest(self) -> int | None:
        """The smallest number: leases are kept in the order of their release."""
        return next(iter(self._leases), None)

    def up_to(self, fetch_id: int) -> list[Lease]:
        return [lease for number, lease in sorted(self._leases.items()) if number <= fetch_id]

    def add(self, unit: Unit, lease: Lease) -> None:
        unit.put(LEASE + id_key(lease.fetch_id), _encode(lease))
        self._remember(lease)

    def renew(self, unit: Unit, lease: Lease) -> None:
        unit.put(LEASE + id_key(lease.fetch_id), _encode(lease))
        self._leases[lease.fetch_id] = lease

    def end(self, unit: Unit, fetch_id: int) -> Lease | None:
        """None: it was settled before."""
        lease = self._leases.pop(fetch_id, None)
        if lease is None:
            return None
        unit.delete(LEASE + id_key(fetch_id))
        self._hosts[lease.host] -= 1
        if not self._hosts[lease.host]:
            del self._hosts[lease.host]
        if lease.kind == "robots":
            self._asked.discard(origin_of(lease.item.url))
        return lease

    def _remember(self, lease: Lease) -> None:
        self._leases[lease.fetch_id] = lease
        self._hosts[lease.host] += 1
        if lease.kind == "robots":
            self._asked.add(origin_of(lease.item.url))
