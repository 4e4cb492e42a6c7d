"""The fetcher's metrics. One object per process; its methods are called on the event loop."""

from collections import deque
from collections.abc import Callable
from typing import get_args

from prometheus_client import CollectorRegistry, Gauge

from headrace_fetcher.busiest import Busiest
from headrace_runtime.clock import Clock
from headrace_runtime.tally import Counts, Spreads
from headrace_schemas.messages import FAILURES, Phases, TaskKind

WINDOW = 10  # seconds that pages per second are taken over
RECENT = 1_000  # attempts that the success rate is taken over
LATENCIES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
STATUSES = (200, 301, 302, 304, 403, 404, 429, 500, 503)
"""Shown at 0 from the start: a figure that comes only with the first error cannot be watched before it."""


class Pace:
    """Events per second over the last WINDOW whole seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._begun = clock, clock.monotonic()
        self._seconds: deque[tuple[int, int]] = deque()

    def note(self) -> None:
        second = int(self._clock.monotonic())
        if self._seconds and self._seconds[-1][0] == second:
            self._seconds[-1] = (second, self._seconds[-1][1] + 1)
        else:
            self._seconds.append((second, 1))
            self._forget(second)

    def rate(self) -> float:
        now = self._clock.monotonic()
        self._forget(int(now))
        return sum(number for _, number in self._seconds) / max(1.0, min(float(WINDOW), now - self._begun))

    def _forget(self, second: int) -> None:
        while self._seconds and self._seconds[0][0] <= second - WINDOW:
            self._seconds.popleft()


class Meters:
    def __init__(self, registry: CollectorRegistry, clock: Clock) -> None:
        self.pace = Pace(clock)
        self._recent: deque[bool] = deque(maxlen=RECENT)
        self.pages = Counts("crawler_pages_fetched", "Pages that came with a body", registry=registry).labels()
        self.bytes = Counts("crawler_fetch_bytes", "Body bytes over the wire", registry=registry).labels()
        self._status = Counts(
            "crawler_http_status",
            "Answers by HTTP status; kind is what was asked for: page, robots or sitemap",
            ["code", "kind"],
            registry=registry,
        )
        self._failures = Counts("crawler_fetch_failures", "Attempts without a page", ["reason"], registry=registry)
        self.latency = Spreads(
            "crawler_fetch_latency_seconds", "Start of a request to its last byte", buckets=LATENCIES, registry=registry
        ).labels()
        phase = Spreads(
            "crawler_fetch_phase_seconds",
            "Where the time of an attempt went: turn (its host was not free), connect, first_byte, body",
            ["phase"],
            buckets=LATENCIES,
            registry=registry,
        )
        self._turn, self._connect, self._first_byte, self._body = map(
            phase.labels, ("turn", "connect", "first_byte", "body")
        )
        self._busiest = Busiest(registry)
        for code in STATUSES:
            for kind in get_args(TaskKind):
                self._status.labels(str(code), kind)
        for reason in (*FAILURES, "refused"):
            self._failures.labels(reason)
        self._active = Gauge("crawler_active_workers", "Requests under way", registry=registry)
        self._hosts = Gauge("crawler_hosts_scheduled", "Hosts the politeness clock knows", registry=registry)
        rate = Gauge("crawler_pages_per_second", "Pages a second over the last ten seconds", registry=registry)
        rate.set_function(self.pace.rate)
        success = Gauge("crawler_fetch_success_rate", "Share of recent attempts with a result", registry=registry)
        success.set_function(self.success_rate)

    def watch(self, *, active: Callable[[], float], hosts: Callable[[], float]) -> None:
        """What is asked when someone looks, and costs nothing between."""
        self._active.set_function(active)
        self._hosts.set_function(hosts)

    def attempt(self, *, kind: TaskKind, reason: str, status: int, received: int, seconds: float) -> None:
        """`reason`: empty if it gave a page, a redirect, a 304 or a robots.txt."""
        self._recent.append(not reason)
        if reason:
            self._failures.labels(reason).inc()
        if status:
            self._status.labels(str(status) if status < 600 else "other", kind).inc()
        self.bytes.inc(received)
        self.latency.observe(seconds)

    def phases(self, waited: float, phases: Phases) -> None:
        """`waited`: seconds for its host's turn. What the client cannot tell is not shown."""
        self._turn.observe(waited)
        if phases.connect >= 0:
            self._connect.observe(phases.connect / 1000)
        if phases.first_byte:
            self._first_byte.observe(phases.first_byte / 1000)
            self._body.observe(phases.body / 1000)

    def page(self, host: str) -> None:
        self.pages.inc()
        self._busiest.note(host)
        self.pace.note()

    def success_rate(self) -> float:
        return sum(self._recent) / len(self._recent) if self._recent else 1.0
