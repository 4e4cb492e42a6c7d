"""Budgets that lie within a partition: pages of a host, bytes of a host, pages of a group of URLs by type.

    g | group (8)  →  pages fetched of it (u32)

What is fetched is counted for good, what is under way is reserved by its lease: a cap is met exactly and never passed.
A page takes a place only once, however often it is fetched again. Bytes are not known before they have come, so a
request reserves all that a page may have; where less than that is left, one at a time is asked for, and told how much.
"""

from enum import Enum, auto
from typing import NamedTuple

import xxhash

from headrace_frontier.hosts import Host
from headrace_frontier.leases import Lease, Leases
from headrace_frontier.policy import Policy
from headrace_frontier.queues import Item
from headrace_runtime.streams.seams import Unit
from headrace_schemas.messages import CrawlSettings, Failed, Fetched

GROUP = b"g"


class Room(Enum):
    FREE = auto()
    HOST_BUSY = auto()
    """What is under way of this host may use the rest: wait for its results."""
    GROUP_BUSY = auto()
    """The same of its group; other URLs of the host may go."""
    SPENT = auto()


class Place(NamedTuple):
    """What a release reserves."""

    room: Room
    max_bytes: int = 0
    groups: tuple[bytes, ...] = ()


_NO_CAPS = Place(Room.FREE)


def group_key(name: str) -> bytes:
    return GROUP + xxhash.xxh3_64_digest(name.encode())


class Caps:
    def __init__(self, leases: Leases) -> None:
        self._leases = leases

    def spent(self, unit: Unit, host: Host, item: Item, policy: Policy) -> str:
        """The cap under which no page like this one can ever be fetched, for people; empty: there is none."""
        if item.counted:
            return ""
        settings = policy.settings
        if settings.host_pages and host.fetched >= settings.host_pages:
            return f"limits.host_pages is {settings.host_pages}"
        if settings.host_bytes and _full(host, settings):
            return f"limits.host_bytes is {settings.host_bytes}"
        spent = (kind for key, cap, kind in _groups(host, item, policy) if _count(unit, key) >= cap)
        return next((f"limits.group_pages has {kind}" for kind in spent), "")

    def place(self, unit: Unit, host: Host, item: Item, policy: Policy) -> Place:
        """What releasing it now takes, or why it cannot be."""
        settings = policy.settings
        capped = settings.host_pages or settings.host_bytes or policy.group_total or settings.group_pages
        if item.counted or not capped:
            return _NO_CAPS
        if settings.host_pages and host.fetched >= settings.host_pages:
            return Place(Room.SPENT)
        busy = False
        groups = []
        for key, cap, _ in _groups(host, item, policy):
            fetched = _count(unit, key)
            if fetched >= cap:
                return Place(Room.SPENT)
            busy = busy or fetched + self._leases.in_group(key) >= cap
            groups.append(key)
        most = 0
        if settings.host_bytes:
            if _full(host, settings):
                return Place(Room.SPENT)
            left = settings.host_bytes - host.body_bytes
            most = min(left, settings.max_body)
            if self._leases.bytes_of(host.name) + most > left:
                return Place(Room.HOST_BUSY)
        if settings.host_pages and host.fetched + self._leases.credits_of(host.name) >= settings.host_pages:
            return Place(Room.HOST_BUSY)
        return Place(Room.GROUP_BUSY) if busy else Place(Room.FREE, most, tuple(groups))

    def fetched(self, unit: Unit, host: Host, lease: Lease, fetched: Fetched) -> None:
        """A page came that counts."""
        host.fetched += 1
        host.body_bytes += fetched.size
        for key in lease.groups:
            unit.put(key, (_count(unit, key) + 1).to_bytes(4, "big"))

    def failed(self, host: Host, failed: Failed, settings: CrawlSettings) -> None:
        """A page that does not fit ends the budget of bytes: asking for every other page to find one that does
        would load the host with requests nobody has a use for."""
        if failed.reason == "over_budget":
            host.full = settings.host_bytes


def _full(host: Host, settings: CrawlSettings) -> bool:
    return host.body_bytes >= settings.host_bytes or host.full >= settings.host_bytes


def _groups(host: Host, item: Item, policy: Policy) -> list[tuple[bytes, int, str]]:
    """(key, cap, as the setting says it) of every capped group the URL is in. A group lies within a host: its results
    bring the host back."""
    if not policy.settings.group_pages:
        return []
    name = policy.group(item.url)
    if not name:
        return []
    page_type = policy.page_type(item.url)
    caps = (("*", policy.group_total), (page_type, policy.group_cap(page_type)))
    return [(group_key(f"{host.name} {kind} {name}"), cap, f"{kind}={cap}") for kind, cap in caps if cap]


def _count(unit: Unit, key: bytes) -> int:
    raw = unit.get([key])[0]
    return int.from_bytes(raw, "big") if raw else 0
