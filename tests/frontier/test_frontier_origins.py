"""What a robots.txt said is kept compiled, apart from what is looked at for every host, and judged within bounds."""

from typing import Any

import msgspec
import pytest

from headrace_frontier.origins import origin_key, rules_key
from headrace_frontier.tuning import Tuning
from headrace_runtime.streams.seams import Unit
from headrace_schemas.messages import Outcome, Robots
from headrace_schemas.settings import RobotsSettings
from tests.frontier.explaining import explained
from tests.frontier.world import Page, World, failing, page

A, B = "http://a.test", "http://b.test"
RULES = b"User-agent: *\nDisallow: /no\nDisallow: /*/x*y\n"
PATHS = [f"/{kind}{n}" for kind in ("no", "yes", "a/x_y", "a/x") for n in range(10)]


def ruled(*hosts: str, text: bytes = RULES, **more: Any) -> World:
    web = {f"{host}{path}": page() for host in hosts for path in PATHS}
    return World(web | {f"{host}/robots.txt": Page((Robots(200, text),)) for host in hosts}, **more)


def seeded(world: World, *hosts: str) -> World:
    world.seed(*(f"{host}/yes0" for host in hosts))
    world.run()
    world.seed(*(f"{host}{path}" for path in PATHS for host in hosts))
    world.run()
    return world


@pytest.mark.parametrize(
    "tuning", [Tuning(judging=1), Tuning(robots_cached_bytes=1), Tuning(origins_cached=1, judging=1)]
)
def test_what_costs_too_much_now_is_judged_later_and_no_otherwise(tuning: Tuning) -> None:
    hosts = [f"http://{n}.test" for n in range(4)]
    world = seeded(ruled(*hosts, tuning=tuning), *hosts)
    assert world.reasons("refused_by") == {"robots_disallow": 20 * len(hosts)}
    assert world.totals()["fetched"] == 20 * len(hosts)
    assert sorted(task.url for task in world.released if "/no" in task.url or "_y" in task.url) == []


def test_links_of_one_unit_are_judged_for_so_long_and_no_longer() -> None:
    world = ruled(A, tuning=Tuning(judging=1))
    world.seed(f"{A}/yes0")
    world.run()
    world.seed(*(f"{A}{path}" for path in PATHS if path != "/yes0"))
    world._polled = lambda partition, most: world.topics["links.discovered", partition][1:]  # type: ignore[method-assign]
    world.turn(0)
    assert world.totals()["refused"] <= 2, "one when they were found, one at release"
    assert world.totals()["queued"] >= len(PATHS) - 4


def test_a_file_of_an_older_release_is_compiled_when_it_is_met() -> None:
    world = seeded(ruled(A), A)
    text = b"User-agent: *\nDisallow: /yes\nCrawl-delay: 7\n"
    old = (200, text, world.clock.now(), world.clock.now() + 60, 0, 0.0, 0, 0)
    unit = Unit()
    unit.put(origin_key(A), msgspec.msgpack.encode(old))
    unit.delete(rules_key(A))
    world.states[0].apply(unit)
    world.handlers[0] = world._built(0)
    world.seed(f"{A}/yes?again")
    world.run()
    said = explained(world, f"{A}/yes?again")["robots"]
    assert (said["rule"], said["crawl_delay"]) == ("Disallow: /yes (line 2)", 7.0)
    assert world.asked[f"{A}/robots.txt"] == 1


def test_what_was_said_to_another_agent_is_asked_for_again() -> None:
    text = b"User-agent: other\nDisallow: /yes\nUser-agent: *\nDisallow: /no\n"
    world = seeded(ruled(A, text=text), A)
    world.desired.change(agent="other")
    world.seed(f"{A}/yes?1", f"{A}/no?1")
    world.run()
    assert world.asked[f"{A}/robots.txt"] == 2
    assert explained(world, f"{A}/yes?1")["robots"]["rule"] == "Disallow: /yes (line 2)"
    assert explained(world, f"{A}/no?1")["robots"]["allowed"]


@pytest.mark.parametrize("then", [Robots(404), Robots(200, b""), failing(0, "too_many_redirects")])
def test_rules_that_hold_no_more_are_not_kept(then: Outcome) -> None:
    world = ruled(A, robots=RobotsSettings(ttl=100.0))
    world.web[f"{A}/robots.txt"] = Page((Robots(200, RULES), then))
    world.seed(f"{A}/no1")
    world.run()
    assert world.states[0].get([rules_key(A)]) != [None]
    world.clock.advance(200.0)
    world.seed(f"{A}/no2")
    world.run()
    assert world.states[0].get([rules_key(A)]) == [None]
    assert world.asked[f"{A}/no2"] == 1
