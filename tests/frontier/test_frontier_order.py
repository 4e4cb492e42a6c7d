"""In which order the URLs of a host go, and that none waits for ever."""

import random

import pytest

from headrace_frontier import queues
from headrace_frontier.queues import NORMAL, STEP, ready_place, sequence_of
from headrace_schemas.settings import ScopeSettings
from tests.frontier.world import World, link, page

A = "http://a.test"


def place(priority: int, depth: int, sequence: int) -> bytes:
    return ready_place(NORMAL, priority, depth, sequence)


def test_priority_goes_before_depth_and_depth_before_arrival() -> None:
    wanted = [(p, d, s) for p in range(3) for d in range(11) for s in (1, 2, 300)]
    shuffled = random.Random(1).sample(wanted, len(wanted))
    assert sorted(shuffled, key=lambda one: place(*one)) == wanted


def test_what_waits_goes_ahead_of_what_is_better_and_comes_much_later() -> None:
    """The worst rank there is, against the best: bounded however many of the best keep coming."""
    worst = place(2, 10_000, 1)
    assert worst < place(0, 0, 1 + 48 * STEP)
    assert worst > place(0, 0, 40 * STEP)


def test_no_two_places_are_the_same() -> None:
    places = {place(p, d, s) for p in range(3) for d in range(16) for s in range(0, 20 * STEP, STEP // 2)}
    assert len(places) == 3 * 16 * 40


def test_a_place_remembers_when_its_url_came() -> None:
    assert sequence_of(place(2, 9, 123_456_789_012)) == 123_456_789_012


def test_seeds_and_shallow_pages_go_before_content_and_pagination_last() -> None:
    urls = {
        f"{A}/list?page=7": 1,
        f"{A}/deep/content": 7,
        f"{A}/content": 4,
        f"{A}/shallow": 2,
        f"{A}/": 3,
        f"{A}/seed": 0,
    }
    world = World({url: page() for url in urls}, low_priority=ScopeSettings().low_priority)
    world.find(*(link(url, depth) for url, depth in urls.items()))
    world.run()
    asked = [task.url.removeprefix(A) for _, task, _ in world.log if task.kind == "page"]
    assert asked == ["/seed", "/shallow", "/", "/content", "/list?page=7", "/deep/content"]


def test_a_url_found_on_a_better_way_takes_the_place_that_way_has() -> None:
    world = World({f"{A}/{n}": page() for n in range(6)})
    world.find(*(link(f"{A}/{n}", 8) for n in range(6)))
    world.turn(0)
    world.find(link(f"{A}/5", 1))
    world.run()
    assert next(task.url for _, task, _ in world.log if task.kind == "page") == f"{A}/5"


def test_deep_pages_are_reached_while_shallow_ones_keep_coming(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that has always one more shallow page: its deep page goes out all the same."""
    monkeypatch.setattr(queues, "STEP", 5)
    world = World({}, audited=False)
    world.web.update({f"{A}/deep": page()})
    world.find(link(f"{A}/deep", 9))
    found = 0
    for _ in range(500):
        more = [f"{A}/{found + n}" for n in range(20)]
        found += len(more)
        world.web.update({url: page() for url in more})
        world.find(*(link(url, 1) for url in more))
        world.turn(0, most=40)
        world.answer(5)
        if world.asked[f"{A}/deep"]:
            break
    assert world.asked[f"{A}/deep"] == 1


def test_a_url_the_policy_has_turned_against_is_not_asked_for() -> None:
    world = World({f"{A}/{n}": page() for n in range(10)})
    world.find(*(link(f"{A}/{n}", 3) for n in range(10)))
    world.turn(0)
    world.desired.change(max_depth=2)
    world.run()
    assert world.totals()["fetched"] == 0
    assert world.reasons("refused_by") == {"depth": 10}
