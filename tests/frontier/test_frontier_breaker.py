"""The breaker of a host: closed, open, half-open, and given up at last."""

import pytest

from headrace_frontier.breaker import Breaker, answered, state_of
from headrace_frontier.hosts import Host
from headrace_schemas.messages import Failed, Fetched
from headrace_schemas.settings import BreakerSettings, RetrySettings
from tests.frontier.world import Page, World, failing, page

A, B = "http://a.test", "http://b.test"
SETTINGS = BreakerSettings()
DOWN, DENIED, BUSY = Failed("http", 500, True), Failed("http", 403), Failed("http", 429, True)


def host() -> Host:
    return Host("a.test", b"12345678")


def fail(one: Host, breaker: Breaker, times: int, now: float, failed: Failed = DOWN) -> None:
    for _ in range(times):
        breaker.failed(one, failed, now, now, 1, seed=7)


@pytest.mark.parametrize("failed", [DOWN, DENIED, BUSY])
def test_five_in_a_row_open_it_for_a_minute_or_a_little_more(failed: Failed) -> None:
    one, breaker = host(), Breaker(SETTINGS)
    fail(one, breaker, 4, 100.0, failed)
    assert state_of(one, 100.0) == "closed"
    fail(one, breaker, 1, 100.0, failed)
    assert state_of(one, 100.0) == "open"
    assert 160.0 <= one.cooldown_until <= 172.0
    assert state_of(one, 175.0) == "half-open"


def test_failures_and_refusals_are_counted_apart() -> None:
    one, breaker = host(), Breaker(SETTINGS)
    fail(one, breaker, 4, 100.0, DOWN)
    fail(one, breaker, 4, 100.0, DENIED)
    assert state_of(one, 100.0) == "closed"


def test_it_closes_after_two_successes_and_one_failure_before_that_opens_it_again() -> None:
    one, breaker = host(), Breaker(SETTINGS)
    fail(one, breaker, 5, 100.0)
    answered(one, 180.0)
    assert state_of(one, 200.0) == "half-open"
    fail(one, breaker, 1, 200.0)
    assert state_of(one, 200.0) == "open"
    assert not one.given_up
    answered(one, 290.0)
    answered(one, 291.0)
    assert state_of(one, 300.0) == "closed"
    fail(one, breaker, 4, 300.0)
    assert state_of(one, 300.0) == "closed"


def test_each_cool_down_without_a_success_is_twice_the_one_before() -> None:
    one, breaker = host(), Breaker(BreakerSettings(opens=4))
    lengths = []
    now = 0.0
    for _ in range(3):
        fail(one, breaker, 5, now)
        lengths.append(one.cooldown_until - now)
        now = one.cooldown_until
    assert [round(length / lengths[0], 3) for length in lengths] == [1.0, 2.0, 4.0]
    fail(one, breaker, 1, now)
    assert one.given_up == 1


def test_what_was_released_before_it_opened_says_nothing_new() -> None:
    one, breaker = host(), Breaker(SETTINGS)
    fail(one, breaker, 5, 100.0)
    until = one.cooldown_until
    for _ in range(10):
        breaker.failed(one, DOWN, 100.0, 120.0, 1, seed=8)
    assert (one.cooldown_until, one.given_up) == (until, 0)


def test_what_was_released_before_it_opened_neither_closes_nor_reopens_it() -> None:
    one, breaker = host(), Breaker(SETTINGS)
    fail(one, breaker, 5, 100.0)
    until = one.cooldown_until
    answered(one, 99.0)
    answered(one, 99.5)
    assert (state_of(one, 120.0), one.cooldown_until, one.trial, one.opened) == ("open", until, 2, 1)
    answered(one, until + 1.0)
    assert one.trial == 1
    answered(one, 99.9)
    assert one.trial == 1, "an old answer is none of the two that are owed"
    breaker.failed(one, DOWN, 99.9, until + 2.0, 1, seed=8)
    assert (state_of(one, until + 2.0), one.failures) == ("half-open", 0)
    answered(one, until + 3.0)
    assert state_of(one, until + 3.0) == "closed"


def test_a_site_that_refuses_us_is_left_alone_and_at_last_given_up() -> None:
    web = {f"{A}/{n}": Page((Failed("http", 403),)) for n in range(30)}
    world = World(web)
    world.seed(*web)
    world.run()
    assert sum(world.asked[url] for url in web) == 6  # five, and one after the cool-down
    assert world.reasons("failed_by") == {"http": 6, "host_dead": 24}


def test_a_half_open_host_is_asked_for_one_page_at_a_time() -> None:
    bad = {f"{A}/bad{n}": Page((failing(500, retriable=False),)) for n in range(5)}
    good = {f"{A}/good{n}": page() for n in range(20)}
    world = World(bad | good, retry=RetrySettings(attempts=1))
    world.seed(*bad)
    world.settle_down()
    while world.answer():
        world.settle_down()
    world.seed(*good)
    world.settle_down()
    assert world.progress[0].next_why == "breaker"
    assert world.progress[0].next_host == "a.test"
    world.clock.advance(80.0)
    for _ in range(2):
        world.settle_down()
        assert len(world.tasks()) == 1
        world.answer(outcome=Fetched(200, 10, "ab"), latency_ms=1)
    world.run()
    assert world.totals()["fetched"] == 20


def test_breakers_are_counted_as_they_open_close_and_give_up() -> None:
    bad = {f"{A}/bad{n}": Page((failing(500, retriable=False),)) for n in range(5)}
    good = {f"{A}/good{n}": page() for n in range(5)}
    dead = {f"{B}/{n}": Page((Failed("http", 403),)) for n in range(30)}
    world = World(bad | good | dead, retry=RetrySettings(attempts=1))
    world.seed(*bad)
    world.settle_down()
    while world.answer():
        world.settle_down()
    assert figures(world) == (1, 1, 0), "open"
    world.seed(*good)
    world.run()
    assert figures(world) == (0, 1, 0), "closed again by two that went well"
    world.seed(*dead)
    world.run()
    assert figures(world) == (0, 3, 1), "opened twice, and given up"


def figures(world: World) -> tuple[float | None, ...]:
    names = ("crawler_breakers_open", "crawler_breakers_opened_total", "crawler_hosts_given_up_total")
    return tuple(world.registry.get_sample_value(name) for name in names)
