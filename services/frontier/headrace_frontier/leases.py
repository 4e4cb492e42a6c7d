"""What is released and not answered. A lease never ends by time: the log does not lose a committed task.

All of them are held in memory as well: a window's worth, read once when the lane begins.
"""

from collections import Counter
from typing import TypeVar

import msgspec
from msgspec import Struct

from headrace_frontier.queues import Item
from headrace_runtime.streams.seams import StateView, Unit
from headrace_schemas.messages import FetchTask, TaskKind
from headrace_schemas.urls import origin_of

K = TypeVar("K")
LEASE = b"f"
_END = b"g"
_encode = msgspec.msgpack.Encoder().encode


class Lease(Struct, frozen=True, gc=False, array_like=True):
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
    """It is to be counted: a credit of `max_pages`, and a place under each cap, is reserved for it."""
    connections: int = 1
    max_bytes: int = 0
    """Reserved of the host's budget of bytes; 0: it has none."""
    groups: tuple[bytes, ...] = ()
    """The capped groups it is counted in."""
    store: bool = True


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
        connections=lease.connections,
        max_bytes=lease.max_bytes,
        store=lease.store,
    )


class Leases:
    def __init__(self, view: StateView, oldest: int) -> None:
        """`oldest`: no lease has a smaller number; a scan from 0 would pass a tombstone for every page ever fetched."""
        self._leases: dict[int, Lease] = {}
        self._hosts: Counter[str] = Counter()
        self._credits: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._groups: Counter[bytes] = Counter()
        self._asked: set[str] = set()
        for _, raw in view.scan(LEASE + id_key(oldest), _END):
            self._remember(_decode(raw))

    def __len__(self) -> int:
        return len(self._leases)

    def of_host(self, host: str) -> int:
        return self._hosts[host]

    def credits_of(self, host: str) -> int:
        """Of them, those that will be counted if a page comes of them."""
        return self._credits[host]

    def bytes_of(self, host: str) -> int:
        """Reserved of the host's budget."""
        return self._bytes[host]

    def in_group(self, group: bytes) -> int:
        """As `credits_of`, of a capped group."""
        return self._groups[group]

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

    def mark(self, unit: Unit, key: bytes, run: int) -> None:
        """The page under way was asked for once more in `run`. Seldom, so it is looked for."""
        for lease in self._leases.values():
            if lease.kind == "page" and lease.item.key == key:
                self.renew(unit, msgspec.structs.replace(lease, item=msgspec.structs.replace(lease.item, run=run)))
                return

    def end(self, unit: Unit, fetch_id: int) -> Lease | None:
        """None: it was settled before."""
        lease = self._leases.pop(fetch_id, None)
        if lease is None:
            return None
        unit.delete(LEASE + id_key(fetch_id))
        self._count(lease, -1)
        if lease.kind == "robots":
            self._asked.discard(origin_of(lease.item.url))
        return lease

    def _remember(self, lease: Lease) -> None:
        self._leases[lease.fetch_id] = lease
        self._count(lease, 1)
        if lease.kind == "robots":
            self._asked.add(origin_of(lease.item.url))

    def _count(self, lease: Lease, by: int) -> None:
        _add(self._hosts, lease.host, by)
        if lease.credit:
            _add(self._credits, lease.host, by)
        if lease.max_bytes:
            _add(self._bytes, lease.host, by * lease.max_bytes)
        for group in lease.groups:
            _add(self._groups, group, by)


def _add(counts: Counter[K], key: K, by: int) -> None:
    """Without leaving zeros behind: hosts come and go by the million."""
    counts[key] += by
    if not counts[key]:
        del counts[key]
