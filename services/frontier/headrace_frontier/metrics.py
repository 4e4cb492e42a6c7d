"""Numbers for Prometheus. Changed only after a commit: what is not true is not shown."""

from collections.abc import Callable
from functools import partial

from msgspec import Struct
from prometheus_client import CollectorRegistry, Counter, Gauge

from headrace_frontier.counters import Counters
from headrace_schemas.messages import State

REJECTIONS = (
    "host_not_allowed",
    "subdomain_denied",
    "denied_pattern",
    "not_in_allowlist",
    "robots_disallow",
    "depth",
    "cap",
    "malformed",
)
"""Shown at 0 from the start; others come with the first of them."""


class Shown(Struct, frozen=True):
    """One lane's numbers as they were last shown."""

    states: tuple[int, ...] = ()
    in_flight_tasks: int = 0
    waiting: int = 0
    oldest_due: float = 0.0
    released: int = 0
    late: int = 0
    denials: int = 0
    breakers_open: int = 0
    breakers_opened: int = 0
    hosts_given_up: int = 0
    rejected: dict[str, int] = {}


def shown(counters: Counters, oldest_due: float) -> Shown:
    return Shown(
        tuple(counters.states),
        counters.tasks_in_flight,
        counters.waiting_hosts,
        oldest_due,
        counters.released,
        counters.late,
        counters.robots_denials,
        counters.breakers_open,
        counters.breakers_opened,
        counters.hosts_given_up,
        rejected={
            reason: counters.rejected.get(reason, 0) + counters.denied.get(reason, 0)
            for reason in counters.rejected.keys() | counters.denied.keys()
        },
    )


class Metrics:
    """One per process; gauges are sums over the lanes it owns, made when someone asks."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lanes: dict[int, Shown] = {}

        def gauge(name: str, text: str, of: Callable[[], float]) -> None:
            Gauge(name, text, registry=registry).set_function(of)

        gauge("crawler_frontier_size", "URLs queued", partial(self._known, State.QUEUED))
        gauge("crawler_tasks_in_flight", "robots.txt tasks released, not answered", self._total("in_flight_tasks"))
        gauge("crawler_hosts_waiting", "Hosts with something to release or to wait for", self._total("waiting"))
        gauge("crawler_breakers_open", "Hosts whose breaker is open or half-open", self._total("breakers_open"))
        gauge(
            "crawler_queue_age_seconds",
            "How long the longest waiting host is overdue",
            lambda: max((lane.oldest_due for lane in self._now()), default=0.0),
        )
        urls = Gauge("crawler_urls", "Known URLs by state", ["state"], registry=registry)
        for state in State:
            urls.labels(state.name.lower()).set_function(partial(self._known, state))
        self._released = Counter("crawler_released_total", "Tasks released", registry=registry)
        self._late = Counter("crawler_late_results_total", "Results of leases settled before", registry=registry)
        self._again = Counter("crawler_released_again_total", "Lost tasks released again", registry=registry)
        self._denials = Counter("crawler_robots_denials_total", "URLs refused by robots.txt", registry=registry)
        self._rejects = Counter(
            "crawler_policy_reject_total", "URLs turned away, by reason", ["reason"], registry=registry
        )
        for reason in REJECTIONS:
            self._rejects.labels(reason)
        self._opened = Counter("crawler_breakers_opened_total", "Times a breaker opened", registry=registry)
        self._given_up = Counter("crawler_hosts_given_up_total", "Hosts given up for a run", registry=registry)

    def begin(self, partition: int, now: Shown) -> None:
        """Counts from here: what was before belongs to the last owner."""
        self._lanes[partition] = now

    def update(self, partition: int, now: Shown) -> None:
        before = self._lanes.get(partition, now)
        self._lanes[partition] = now
        self._released.inc(now.released - before.released)
        self._late.inc(now.late - before.late)
        self._denials.inc(now.denials - before.denials)
        self._opened.inc(now.breakers_opened - before.breakers_opened)
        self._given_up.inc(now.hosts_given_up - before.hosts_given_up)
        for reason, count in now.rejected.items():
            more = count - before.rejected.get(reason, 0)
            if more > 0:
                self._rejects.labels(reason).inc(more)

    def released_again(self, count: int) -> None:
        self._again.inc(count)

    def end(self, partition: int) -> None:
        self._lanes.pop(partition, None)

    def _now(self) -> list[Shown]:
        return list(self._lanes.values())

    def _total(self, field: str) -> Callable[[], float]:
        return lambda: sum(getattr(lane, field) for lane in self._now())

    def _known(self, state: State) -> int:
        return sum(lane.states[state] for lane in self._now())
