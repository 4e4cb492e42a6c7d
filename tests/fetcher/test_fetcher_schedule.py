"""The politeness clock in virtual time."""

import random
import time
from collections import defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace_fetcher.host_clock import LATENESS, UNSEEN, Job, Sighting
from headrace_fetcher.schedule import MEMORY, RECHECK, Schedule

EPSILON = 1e-9


def always(job: Job[str]) -> bool:
    return True


def schedule(*, concurrency: int = 1000, rate: float = 0.0, patience: float = 1e9) -> Schedule[str]:
    made: Schedule[str] = Schedule(concurrency=concurrency, rate=rate, patience=patience)
    made.open("lane", 0.0)
    return made


def job(host: str, delay: float, item: str = "", lane: object = "lane", connections: int = 1) -> Job[str]:
    return Job(lane, host, delay, item, connections)


class World:
    """Plays a schedule: every request takes `latency()` seconds and reaches its server `connect()` after its start."""

    def __init__(self, clock: Schedule[str], seed: int = 0, slowest: float = 1.0) -> None:
        self.clock, self.random, self.slowest = clock, random.Random(seed), slowest
        self.now = 0.0
        self.under_way: list[tuple[float, float, Job[str]]] = []
        self.starts: dict[str, list[tuple[float, float, Job[str]]]] = defaultdict(list)
        """Per host: (written, ended, job), in order of start."""
        self.most = 0

    def run(self, until: float) -> None:
        while self.now <= until:
            for job in self.clock.due(self.now, always):
                written = self.now + self.random.random() * self.slowest / 2
                ended = written + self.random.random() * self.slowest / 2
                self.under_way.append((ended, written, job))
                self.starts[job.host].append((written, ended, job))
            self.most = max(self.most, len(self.under_way))
            wake = self.clock.next_wakeup(self.now)
            times = [ended for ended, _, _ in self.under_way] + ([wake] if wake is not None else [])
            if not times:
                return
            self.now = max(self.now, min(times))
            for entry in [entry for entry in self.under_way if entry[0] <= self.now]:
                self.under_way.remove(entry)
                self.clock.finished(entry[2], self.now, Sighting(entry[1], entry[1]))


# ---- what a host is owed ----


@settings(max_examples=60, deadline=None)
@given(
    tasks=st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from([0.0, 0.3, 1.0, 5.0])), max_size=60),
    seed=st.integers(0, 1000),
    slowest=st.sampled_from([0.01, 1.0, 20.0]),
)
def test_no_two_requests_to_a_host_are_closer_than_its_delay_nor_overlap(
    tasks: list[tuple[str, float]], seed: int, slowest: float
) -> None:
    clock = schedule()
    for number, (host, delay) in enumerate(tasks):
        clock.add(job(host, delay, str(number)), 0.0)
    world = World(clock, seed, slowest)
    world.run(1e9)
    assert sum(len(starts) for starts in world.starts.values()) == len(tasks)
    for starts in world.starts.values():
        for (written, ended, earlier), (after, _, later) in pairwise(starts):
            assert after >= ended - EPSILON
            assert after - written >= max(earlier.delay, later.delay) - EPSILON


def test_tasks_of_a_host_keep_their_order() -> None:
    clock = schedule()
    for number in range(20):
        clock.add(job("h", 0.1, str(number)), 0.0)
    world = World(clock)
    world.run(1e9)
    assert [started.item for _, _, started in world.starts["h"]] == [str(n) for n in range(20)]


def test_a_fast_host_is_asked_exactly_once_a_delay() -> None:
    clock = schedule()
    for _ in range(11):
        clock.add(job("h", 0.5), 0.0)
    world = World(clock, slowest=0.0)
    world.run(1e9)
    written = [at for at, _, _ in world.starts["h"]]
    assert written == pytest.approx([0.5 * n for n in range(1, 12)])


def test_a_rest_holds_for_what_stays_and_what_comes_however_long_nothing_was_asked() -> None:
    clock = schedule()
    for item in ("first", "goes", "stays"):
        clock.add(job("h", 1.0, item), 10.0)
    (first,) = clock.due(10.0, always)
    left = clock.hold("h", 2_000.0, lambda job: job.item == "goes")
    clock.finished(first, 10.5, Sighting(10.0, 10.5))
    assert [job.item for job in left] == ["goes"]
    assert clock.waiting == 1
    clock.drop("lane")
    clock.open("next", 20.0)
    assert clock.due(1_000.0, always) == [], "long after a host is forgotten by which nothing is owed"
    clock.add(job("h", 1.0, "later", lane="next"), 1_000.0)
    assert clock.turn("h", 1.0, "next", 1_000.0) == 2_001.0
    assert clock.due(1_999.9, always) == []
    assert [job.item for job in clock.due(2_000.0, always)] == ["later"]


def test_the_first_request_of_a_new_lane_waits_one_delay_from_its_opening() -> None:
    clock = schedule()
    clock.add(job("h", 2.0), 0.5)
    assert clock.due(1.99, always) == []
    assert len(clock.due(2.0, always)) == 1


def test_a_host_met_long_after_the_opening_need_not_wait() -> None:
    clock = schedule()
    clock.add(job("h", 2.0), 50.0)
    assert len(clock.due(50.0, always)) == 1


def test_what_a_host_is_owed_survives_its_lane() -> None:
    clock = schedule()
    clock.add(job("h", 2.0), 10.0)
    (first,) = clock.due(10.0, always)
    clock.drop("lane")
    clock.finished(first, 11.0, Sighting(10.5, 10.5))
    clock.open("next", 11.0)
    clock.add(job("h", 2.0, lane="next"), 11.0)
    assert clock.due(12.9, always) == []
    assert len(clock.due(13.0, always)) == 1


def test_a_longer_delay_learnt_from_robots_txt_counts_from_the_robots_request() -> None:
    clock = schedule()
    clock.add(job("h", 1.0), 10.0)
    (robots,) = clock.due(10.0, always)
    clock.finished(robots, 10.1, Sighting(10.0, 10.0))
    clock.due(12.0, always)
    clock.add(job("h", 20.0), 12.0)
    assert clock.due(29.9, always) == []
    assert len(clock.due(30.0, always)) == 1


def test_a_robots_txt_asked_for_again_waits_the_delay_that_the_pages_around_it_are_owed() -> None:
    clock = schedule()
    for delay in (5.0, 1.0, 5.0):  # a page, a robots.txt that knows nothing of its own Crawl-delay, a page
        clock.add(job("h", delay), 10.0)
    starts = []
    for now in range(10, 21):
        for one in clock.due(float(now), always):
            starts.append(now)
            clock.finished(one, now, Sighting(now, now))
    assert starts == [10, 15, 20]


def test_a_delay_learnt_minutes_after_the_last_request_still_counts_from_it() -> None:
    clock = schedule()
    clock.add(job("h", 1.0), 10.0)
    (robots,) = clock.due(10.0, always)
    clock.finished(robots, 10.1, Sighting(10.0, 10.0))
    clock.due(200.0, always)
    clock.add(job("h", 250.0), 200.0)
    assert clock.due(259.9, always) == []
    assert len(clock.due(260.0, always)) == 1


def test_an_attempt_that_asked_nothing_costs_the_host_nothing() -> None:
    clock = schedule()
    for _ in range(2):
        clock.add(job("h", 2.0), 10.0)
    (first,) = clock.due(10.0, always)
    clock.finished(first, 10.0, None)
    assert len(clock.due(10.0, always)) == 1


@pytest.mark.parametrize(
    ("answered", "ready"),
    [
        (20.05, 22.0 + UNSEEN),  # as quick as ever: seen when written, or right after
        (20.12, 22.07 + UNSEEN),  # 70 ms later than the quickest: it may have lain unseen for so long
        (21.0, 22.0 + 2.0 * LATENESS + UNSEEN),  # never more than a small part of the delay
    ],
)
def test_an_answer_later_than_usual_may_mean_the_request_was_seen_late(answered: float, ready: float) -> None:
    clock = schedule()
    for _ in range(3):
        clock.add(job("h", 2.0), 10.0)
    (first,) = clock.due(10.0, always)
    clock.finished(first, 10.5, Sighting(10.0, 10.05))
    (second,) = clock.due(20.0, always)
    clock.finished(second, answered, Sighting(20.0, answered))
    assert clock.next_wakeup(answered) == pytest.approx(max(ready, answered))


@settings(max_examples=60, deadline=None)
@given(lateness=st.lists(st.floats(0.0, LATENESS / 2), max_size=30))
def test_a_server_that_notices_requests_late_sees_no_gap_shorter_for_it(lateness: list[float]) -> None:
    clock = schedule()
    now, stamps = 10.0, []
    for late in [UNSEEN, *lateness]:  # the first may not have been seen at once either
        clock.add(job("h", 0.5), now)
        while not (started := clock.due(now, always)):
            now = clock.next_wakeup(now) or now
        stamps.append(now + late)
        answered = now + late + 0.02
        clock.finished(started[0], answered, Sighting(now, answered))
    assert all(after - before >= 0.5 - EPSILON for before, after in pairwise(stamps))


# ---- more than one at once, where a setting names the host ----


def test_a_host_named_by_a_setting_may_have_several_requests_under_way_a_delay_apart() -> None:
    clock = schedule()
    for _ in range(5):
        clock.add(job("h", 1.0, connections=3), 10.0)
    assert [len(clock.due(at, always)) for at in (10.0, 10.9, 11.0, 11.9, 12.0, 13.0, 99.0)] == [1, 0, 1, 0, 1, 0, 0]


def test_the_end_of_one_makes_room_for_the_next() -> None:
    clock = schedule()
    for _ in range(3):
        clock.add(job("h", 1.0, connections=2), 10.0)
    (first,), (_,) = clock.due(10.0, always), clock.due(11.0, always)
    assert clock.due(20.0, always) == []
    clock.finished(first, 20.0, Sighting(10.0, 20.0))
    assert len(clock.due(20.0, always)) == 1


def test_without_a_delay_a_named_host_gets_all_its_requests_at_once() -> None:
    clock = schedule()
    for _ in range(9):
        clock.add(job("h", 0.0, connections=4), 10.0)
    assert len(clock.due(10.0, always)) == 4


def test_a_request_that_may_not_overlap_waits_for_all_that_are_under_way() -> None:
    clock = schedule()
    clock.add(job("h", 0.0, connections=4), 10.0)
    clock.add(job("h", 0.0, connections=4), 10.0)
    clock.add(job("h", 0.0, "alone"), 10.0)
    one, two = clock.due(10.0, always)
    assert clock.due(11.0, always) == []
    clock.finished(one, 12.0, Sighting(10.0, 12.0))
    assert clock.due(12.0, always) == []
    clock.finished(two, 13.0, Sighting(10.0, 13.0))
    assert [started.item for started in clock.due(13.0, always)] == ["alone"]


def test_a_host_that_is_slow_to_connect_to_is_not_asked_on_the_heels_of_a_request_under_way() -> None:
    clock = schedule()
    for _ in range(3):
        clock.add(job("h", 1.0, connections=2), 10.0)
    (first,) = clock.due(10.0, always)
    clock.finished(first, 10.2, Sighting(10.15, 10.15))  # 150 ms until it was on the wire
    assert len(clock.due(11.15, always)) == 1
    assert clock.due(11.15 + 1.1, always) == []
    assert len(clock.due(11.15 + 1.15 + EPSILON, always)) == 1


def test_one_that_goes_first_goes_before_all_that_wait_for_its_host() -> None:
    clock = schedule()
    clock.add(job("h", 1.0, "one"), 10.0)
    clock.add(job("h", 1.0, "two"), 10.0)
    clock.add(job("h", 1.0, "hop"), 10.0, first=True)
    assert [started.item for started in clock.due(10.0, always)] == ["hop"]


# ---- the whole process ----


def test_no_more_requests_are_under_way_than_the_process_may_have() -> None:
    clock = schedule(concurrency=7)
    for number in range(100):
        clock.add(job(f"h{number}", 0.0), 1.0)
    world = World(clock)
    world.run(1e9)
    assert world.most == 7
    assert len(world.starts) == 100


def test_requests_start_at_the_rate_of_the_process() -> None:
    clock = schedule(rate=20.0)
    for number in range(200):
        clock.add(job(f"h{number}", 0.0), 1.0)
    world = World(clock, slowest=0.0)
    world.run(1e9)
    at = sorted(starts[0][0] for starts in world.starts.values())
    assert len(at) == 200
    for early, late in zip(at, at[40:], strict=False):
        assert late - early >= 40 / 20.0 - 0.2
    assert at[-1] <= 200 / 20.0 + 1.0


def test_hosts_share_a_full_process_fairly() -> None:
    clock = schedule(concurrency=4)
    for number in range(20):
        for _ in range(5):
            clock.add(job(f"h{number}", 0.0), 1.0)
    order: list[str] = []
    now = 1.0
    while started := clock.due(now, always):
        order += [one.host for one in started]
        now += 1.0
        for one in started:
            clock.finished(one, now, Sighting(now, now))
    for turn in range(5):
        assert len(set(order[turn * 20 : turn * 20 + 20])) == 20


def test_a_lane_that_may_not_start_holds_back_only_its_own_hosts() -> None:
    clock = schedule()
    clock.open("lost", 0.0)
    clock.add(job("a", 0.0, lane="lost"), 1.0)
    clock.add(job("b", 0.0), 1.0)
    assert [one.host for one in clock.due(1.0, lambda one: one.lane != "lost")] == ["b"]
    assert clock.next_wakeup(1.0) == pytest.approx(1.0 + RECHECK)
    assert [one.host for one in clock.due(1.0 + RECHECK, always)] == ["a"]


def test_a_barred_lane_is_asked_once_in_a_while_however_many_hosts_it_has() -> None:
    clock = schedule()
    for number in range(1_000):
        clock.add(job(f"h{number}", 0.0), 1.0)
    asked = 0

    def lost(_: Job[str]) -> bool:
        nonlocal asked
        asked += 1
        return False

    for turn in range(50):
        assert clock.due(1.0 + turn * RECHECK, lost) == []
    assert asked <= 51
    assert len(clock.due(60.0, always)) == 1_000


def test_a_lane_dropped_while_it_was_barred_leaves_the_hosts_to_the_next() -> None:
    clock = schedule()
    clock.add(job("h", 1.0), 10.0)
    assert clock.due(10.0, lambda _: False) == []
    clock.drop("lane")
    clock.open("next", 11.0)
    clock.add(job("h", 1.0, lane="next"), 11.0)
    assert len(clock.due(12.0, always)) == 1


# ---- waiting has an end ----


def test_a_turn_is_foretold_from_the_queue_before_it() -> None:
    clock = schedule()
    assert clock.turn("h", 3.0, "lane", 10.0) == 10.0
    for _ in range(4):
        clock.add(job("h", 3.0), 10.0)
    assert clock.turn("h", 3.0, "lane", 10.0) == pytest.approx(22.0)
    (first,) = clock.due(10.0, always)
    assert clock.turn("h", 3.0, "lane", 10.0) == pytest.approx(22.0)
    clock.finished(first, 10.2, Sighting(10.1, 10.1))
    assert clock.turn("h", 3.0, "lane", 10.2) == pytest.approx(22.1)


def test_a_job_that_waited_too_long_is_given_back_with_the_time_its_host_is_free() -> None:
    clock = schedule(patience=30.0)
    clock.add(job("h", 1.0, "first"), 10.0)
    clock.add(job("h", 1.0, "second"), 11.0)
    (first,) = clock.due(11.0, always)
    assert clock.next_wakeup(11.0) == pytest.approx(41.0)
    assert list(clock.expired(40.9)) == []
    assert [(given.item, free) for given, free in clock.expired(41.0)] == [("second", 41.0)]
    clock.finished(first, 42.0, Sighting(11.0, 11.0))
    assert clock.waiting == 0


def test_waiting_while_paused_does_not_count() -> None:
    clock = schedule(patience=30.0)
    clock.add(job("h", 1.0), 10.0)
    clock.forgive(100.0)
    assert list(clock.expired(129.0)) == []
    assert len(list(clock.expired(130.0))) == 1


# ---- what it costs ----


def test_dropping_a_lane_forgets_what_it_had_waiting_and_nothing_else() -> None:
    clock = schedule()
    clock.open("other", 0.0)
    for number in range(10):
        clock.add(job(f"h{number}", 0.0, lane="other" if number % 2 else "lane"), 1.0)
    assert {one.lane for one in clock.drop("lane")} == {"lane"}
    assert {one.lane for one in clock.due(1.0, always)} == {"other"}
    assert clock.waiting == 0


def test_hosts_are_forgotten_once_they_are_owed_nothing() -> None:
    clock = schedule()
    for number in range(100):
        clock.add(job(f"h{number}", 1.0), 10.0)
    for one in clock.due(10.0, always):
        clock.finished(one, 10.5, Sighting(10.0, 10.0))
    assert clock.hosts == 100
    clock.due(10.0 + MEMORY - 0.1, always)
    assert clock.hosts == 100
    clock.due(10.0 + MEMORY, always)
    assert clock.hosts == 0
    assert clock.next_wakeup(100.0) is None


def test_a_host_asked_for_hours_leaves_nothing_behind_in_the_heap() -> None:
    clock = schedule()
    now = 10.0
    for _ in range(2_000):  # idle after each, as with a frontier that sends one at a time
        clock.add(job("h", 0.1), now)
        now += 0.1
        for one in clock.due(now, always):
            clock.finished(one, now, Sighting(now, now))
    assert len(clock._heap) <= 3


def test_five_thousand_hosts_are_cheap() -> None:
    clock = schedule(concurrency=128)
    for number in range(5_000):
        for _ in range(4):
            clock.add(job(f"h{number}", 1.0), 1.0)
    world = World(clock, slowest=0.001)
    began = time.process_time()
    world.run(1e9)
    assert sum(map(len, world.starts.values())) == 20_000
    print(f"{(time.process_time() - began) / 20_000 * 1e6:.1f} µs a request, the playing included")
