"""The politeness clock against a model: whatever happens to lanes, hosts and requests, nobody is asked too soon, too
often or never."""

import random
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace_fetcher.host_clock import Job, Sighting
from headrace_fetcher.schedule import Schedule

EPSILON = 1e-6
PATIENCE = 20.0
HOSTS, LANES = "abcd", "xyz"
NAMED = {"c": 2, "d": 4}  # hosts that a setting gives more than one connection
DELAYS = (0.0, 0.2, 1.0, 7.0)


@dataclass
class Asked:
    """What the server of one host saw, and what the model knows of it."""

    started: float = float("-inf")
    seen: float = float("-inf")
    """The latest request that is known to have been seen, and its delay."""
    delay: float = 0.0
    under_way: int = 0
    rests_until: float = float("-inf")


@dataclass
class Play:
    clock: Schedule[int]
    dice: random.Random
    concurrency: int
    now: float = 1_000.0
    opened: dict[str, float] = field(default_factory=dict)
    barred: set[str] = field(default_factory=set)
    paused: bool = False
    under_way: list[tuple[float, float, bool, Job[int]]] = field(default_factory=list)
    """(end, seen, asked, job)."""
    hosts: defaultdict[str, Asked] = field(default_factory=lambda: defaultdict(Asked))
    fates: Counter[int] = field(default_factory=Counter)
    starts: list[float] = field(default_factory=list)
    added: int = 0

    # ---- what can happen ----

    def add(self, host: str, lane: str, delay: float, first: bool) -> None:
        if lane in self.opened:
            one = Job(lane, host, delay, self.added, 1 if first else NAMED.get(host, 1))
            self.added += 1
            self.clock.add(one, self.now, first=first)

    def open(self, lane: str) -> None:
        if lane not in self.opened:
            self.opened[lane] = self.now
            self.clock.open(lane, self.now)

    def drop(self, lane: str) -> None:
        self.opened.pop(lane, None)
        self.fates.update(one.item for one in self.clock.drop(lane))

    def hold(self, name: str, seconds: float) -> None:
        host = self.hosts[name]
        if host.under_way:  # who asks for a rest has just answered
            host.rests_until = max(host.rests_until, self.now + seconds)
            left = self.clock.hold(name, self.now + seconds, lambda job: job.item % 3 > 0)
            self.fates.update(one.item for one in left)

    def pause(self, paused: bool) -> None:
        if self.paused and not paused:
            self.clock.forgive(self.now)
        self.paused = paused

    def pass_time(self, seconds: float) -> None:
        until, idle = self.now + seconds, 0
        while True:
            before = (self.now, self.clock.running, self.clock.waiting)
            wake = None if self.paused else self.turn()
            times = [end for end, _, _, _ in self.under_way] + ([wake] if wake is not None else [])
            following = min(times, default=until)
            if following > until:
                self.now = until
                return
            self.now = max(self.now, following)
            self.end_some()
            idle = idle + 1 if before == (self.now, self.clock.running, self.clock.waiting) else 0
            assert idle < 10, "it wakes up for nothing, again and again"
            if not times:
                return

    def turn(self) -> float | None:
        for one, free in self.clock.expired(self.now):
            assert free >= self.now
            assert self.now - one.accepted >= PATIENCE - EPSILON
            self.fates[one.item] += 1
        for one in self.clock.due(self.now, lambda job: job.lane not in self.barred):
            self.start(one)
        assert len(self.under_way) == self.clock.running <= self.concurrency
        return self.clock.next_wakeup(self.now)

    # ---- requests ----

    def start(self, one: Job[int]) -> None:
        self.fates[one.item] += 1
        self.starts.append(self.now)
        host = self.hosts[one.host]
        assert one.lane not in self.barred
        assert self.now >= self.opened[str(one.lane)] + one.delay - EPSILON
        assert self.now >= host.seen + max(host.delay, one.delay) - EPSILON
        assert self.now >= host.rests_until - EPSILON
        if host.under_way:
            assert self.now >= host.started + one.delay - EPSILON
        host.started = self.now
        host.under_way += 1
        assert host.under_way <= one.connections
        seen = self.now + self.dice.choice((0.0, 0.01, 2.0))
        end = seen + self.dice.choice((0.0, 0.05, 3.0, 25.0))
        self.under_way.append((end, seen, self.dice.random() < 0.9, one))

    def end_some(self) -> None:
        for entry in [entry for entry in self.under_way if entry[0] <= self.now]:
            self.under_way.remove(entry)
            end, seen, asked, one = entry
            host = self.hosts[one.host]
            host.under_way -= 1
            if asked and seen >= host.seen:
                host.seen, host.delay = seen, one.delay
            self.clock.finished(one, self.now, Sighting(seen, end) if asked else None)


ACTIONS: Any = st.one_of(
    st.tuples(st.just("add"), st.sampled_from(HOSTS), st.sampled_from(LANES), st.sampled_from(DELAYS), st.just(False)),
    st.tuples(st.just("add"), st.sampled_from(HOSTS), st.sampled_from(LANES), st.sampled_from(DELAYS), st.booleans()),
    st.tuples(st.just("pass_time"), st.sampled_from((0.0, 0.1, 1.0, 10.0, 400.0))),
    st.tuples(st.sampled_from(("open", "drop", "bar", "free")), st.sampled_from(LANES)),
    st.tuples(st.just("pause"), st.booleans()),
    st.tuples(st.just("hold"), st.sampled_from(HOSTS), st.sampled_from((0.5, 15.0, 600.0))),
)


@settings(max_examples=300, deadline=None)
@given(
    actions=st.lists(ACTIONS, max_size=80),
    seed=st.integers(0, 1_000),
    concurrency=st.sampled_from((1, 3, 100)),
    rate=st.sampled_from((0.0, 1.5, 40.0)),
)
def test_whatever_happens_nobody_is_asked_too_soon_or_too_often_and_nothing_is_forgotten(
    actions: list[tuple[Any, ...]], seed: int, concurrency: int, rate: float
) -> None:
    clock: Schedule[int] = Schedule(concurrency=concurrency, rate=rate, patience=PATIENCE)
    play = Play(clock, random.Random(seed), concurrency)
    for lane in LANES[:2]:
        play.open(lane)
    for name, *rest in actions:
        match name:
            case "bar":
                play.barred.add(rest[0])
            case "free":
                play.barred.discard(rest[0])
            case _:
                getattr(play, name)(*rest)
    play.barred.clear()
    play.pause(False)
    play.pass_time(10_000.0)
    assert (clock.waiting, clock.running, play.under_way) == (0, 0, [])
    assert play.fates == Counter(range(play.added)), "each job starts, expires or is dropped, once"
    assert clock.hosts == 0
    assert clock.next_wakeup(play.now) is None
    if rate:
        burst = max(1.0, rate / 10)
        for first, began in enumerate(play.starts):
            for number, at in enumerate(play.starts[first:], 1):
                assert number <= (at - began) * rate + burst + EPSILON
