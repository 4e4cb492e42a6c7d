"""One URL as the parts that release it see it, read once from committed state."""

import msgspec
from msgspec import Struct

from headrace_frontier import hosts
from headrace_frontier.budget import BUDGET, Budget
from headrace_frontier.counters import COUNTERS
from headrace_frontier.counters import load as load_counters
from headrace_frontier.hosts import Host
from headrace_frontier.leases import Lease, Leases
from headrace_frontier.origins import Origins
from headrace_frontier.policy import Policy
from headrace_frontier.queues import DELAYED, READY, Item, is_delayed
from headrace_frontier.retry import Backoff
from headrace_frontier.seen import seen_key, unpack
from headrace_frontier.tuning import Tuning
from headrace_runtime.streams.seams import StateView, Unit
from headrace_schemas.messages import Control, State
from headrace_schemas.settings import RetrySettings, RobotsSettings
from headrace_schemas.urls import Found, Partitioner, origin_of

_item = msgspec.msgpack.Decoder(Item).decode


class Rules(Struct, frozen=True):
    """What a process's own settings say."""

    partitioner: Partitioner
    retry: RetrySettings
    robots: RobotsSettings
    tuning: Tuning


class Around(Struct, frozen=True):
    """What a partition's state does not say."""

    control: Control
    backlog: int
    """Pages fetched and not yet parsed, or not yet stored."""
    now: float

    @property
    def run(self) -> int:
        return max(1, self.control.run)


class Look:
    """Nothing is ever committed of its unit: the parts that release read through one."""

    def __init__(self, rules: Rules, view: StateView, found: Found, around: Around) -> None:
        self.view, self.around, self.tuning = view, around, rules.tuning
        self.settings = around.control.settings
        self.unit, self.policy = Unit(view), Policy(self.settings)
        raw_entry, raw_counters, raw_budget = view.get([seen_key(found.key), COUNTERS, BUDGET])
        self.entry = None if raw_entry is None else unpack(raw_entry)
        self._counters = load_counters(raw_counters)
        self.leases = Leases(view, self._counters.oldest_lease)
        self.host = self._find_host(rules.partitioner.politeness_key(found.url))
        self.lease = self._find_lease(found.key)
        self.item = self._find_item()
        # The spelling that is, or will be, asked for is what is judged.
        self.url = self.item.url if self.item else found.url
        self.partition = rules.partitioner.partition(self.url)
        self.budget = Budget(self.partition, rules.partitioner.partitions, raw_budget)
        self.origin = origin_of(self.url)
        self.origins = Origins(rules.robots, Backoff(rules.retry), rules.tuning, self.leases)
        self.origins.follow(self.settings.agent)
        self.record = self.origins.get(self.unit, self.origin)
        self.standing = self.origins.standing(self.origin, self.record, around.now, around.run)

    @property
    def state(self) -> State | None:
        """None: it was never found."""
        return None if self.entry is None else self.entry.state

    @property
    def delay(self) -> float:
        """Seconds owed to its host between two requests."""
        own, _ = self.policy.polite(self.host.name if self.host else "")
        return max(self.settings.delay if own is None else own, self.origins.delay(self.record))

    def _find_host(self, name: str) -> Host | None:
        raw = self.view.get([hosts.host_key(name)])[0]
        return None if raw is None else hosts.load(raw)

    def _find_lease(self, key: bytes) -> Lease | None:
        if self.entry is None or self.entry.state is not State.IN_FLIGHT:
            return None
        pages = (lease for lease in self.leases.up_to(self._counters.fetch_id) if lease.kind == "page")
        return next((lease for lease in pages if lease.item.key == key), None)

    def _find_item(self) -> Item | None:
        if self.lease is not None:
            return self.lease.item
        if self.entry is None or self.host is None or not self.entry.place:
            return None
        prefix = DELAYED if is_delayed(self.entry.place) else READY
        raw = self.view.get([prefix + self.host.id + self.entry.place])[0]
        return None if raw is None else _item(raw)
