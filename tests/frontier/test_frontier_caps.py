"""Caps per host and per group, pages and bytes: met exactly, never passed, whatever fails in between."""

import random
from typing import Any

import pytest

from headrace_frontier.hosts import host_key, load
from headrace_schemas.messages import Failed, Fetched, FetchTask
from tests.frontier.webs import tangled
from tests.frontier.world import Page, World, failing, page, redirect

A, B = "http://a.test", "http://b.test"
REPOS: dict[str, Any] = {
    "group": r"^http://[^/]+/([^/]+)/([^/]+)",
    "page_types": (r"issue=/issues/[0-9]+$", r"pull=/pull/[0-9]+$"),
}


def fetched_of(world: World, host: str) -> list[FetchTask]:
    return [task for _, task, outcome in world.log if task.host == host and isinstance(outcome, Fetched)]


@pytest.mark.parametrize("crash", [0.0, 0.2])
@pytest.mark.parametrize("partitions", [1, 3])
def test_no_host_gives_more_pages_than_its_cap_and_none_fewer_if_it_has_them(partitions: int, crash: float) -> None:
    web = {f"http://h{h}.test/{n}": page() for h in range(4) for n in range(20)}
    web |= {f"http://h1.test/{n}": Page((failing(500, retriable=False),)) for n in range(0, 20, 3)}
    web |= {f"http://h2.test/{n}": redirect(f"http://h2.test/{n + 1}") for n in range(0, 20, 5)}
    world = World(web, partitions=partitions, crash=crash, seed=partitions, host_pages=7)
    world.seed(*web)
    world.run()
    for h in range(4):
        done = {task.url for task in fetched_of(world, f"h{h}.test")}
        assert len(done) == 7, h
    assert world.totals()["fetched"] == 28
    assert world.reasons("refused_by").keys() == {"cap"}
    assert world.totals()["queued"] == 0


def test_with_politeness_by_domain_all_hosts_of_a_domain_have_one_cap() -> None:
    web = {f"http://{host}/o/{n}": page() for host in ("a.one.test", "b.one.test", "two.test") for n in range(6)}
    world = World(web, by="domain", host_pages=4)
    world.seed(*web)
    world.run()
    assert [len(fetched_of(world, host)) for host in ("one.test", "two.test")] == [4, 4]
    grouped = World(web, by="domain", group="^http://[^/]+/([^/]+)/", group_pages=("page=2",))
    grouped.seed(*web)
    grouped.run()
    assert [len(fetched_of(grouped, host)) for host in ("one.test", "two.test")] == [2, 2]


def test_a_page_that_fails_gives_its_place_back() -> None:
    web = {f"{A}/{n}": Page((Failed("http", 404),)) for n in range(10)} | {f"{A}/{n}": page() for n in range(10, 14)}
    world = World(web, host_pages=3)
    world.seed(*web)
    world.run()
    assert world.totals()["fetched"] == 3


@pytest.mark.parametrize("crash", [0.0, 0.2])
@pytest.mark.parametrize("partitions", [1, 3])
def test_what_is_queued_is_of_the_type_that_the_settings_name_when_it_is_released(
    partitions: int, crash: float
) -> None:
    urls = [f"http://h{h}.test/o/r/{kind}/{n}" for h in range(3) for kind in ("issues", "pull") for n in range(8)]
    world = World({url: page() for url in urls}, partitions=partitions, crash=crash, **REPOS, group_pages=("issue=2",))
    world.seed(*urls)
    for partition in range(partitions):
        world.turn(partition, most=100)
    types = ("any=/issues/[0-9]+$", "ask=/pull/[0-9]+$")
    before = len(world.released)
    world.desired.change(page_types=types, group_pages=("ask=3",))
    world.run()
    after = [task for task in world.released[before:] if task.kind == "page"]
    assert {task.page_type for task in after} == {"any", "ask"}
    assert all((task.page_type == "ask") == ("/pull/" in task.url) for task in after)
    for h in range(3):
        mine = {task.url for task in fetched_of(world, f"h{h}.test")}
        assert (sum("/pull/" in url for url in mine), sum("/issues/" in url for url in mine)) == (3, 8)
    assert world.totals()["queued"] == 0


def test_a_page_fetched_again_takes_no_second_place() -> None:
    world = World({f"{A}/{n}": page() for n in range(5)}, host_pages=3)
    world.seed(*world.web)
    world.run()
    done = [task.url for task in fetched_of(world, "a.test")]
    world.desired.change(run=2)
    world.seed(*done, again=2)
    world.run()
    assert sorted(world.asked[url] for url in done) == [2, 2, 2]
    assert world.totals()["fetched"] == 3


def test_what_a_cap_refused_is_taken_when_it_is_found_again_under_a_higher_one() -> None:
    world = World({f"{A}/{n}": page() for n in range(5)}, host_pages=2)
    world.seed(*world.web)
    world.run()
    assert world.reasons("refused_by") == {"cap": 3}
    world.desired.change(host_pages=4)
    world.seed(*world.web)
    world.run()
    assert (world.totals()["fetched"], world.reasons("refused_by")) == (4, {"cap": 1})


@pytest.mark.parametrize("crash", [0.0, 0.2])
def test_groups_are_capped_by_type_and_together(crash: float) -> None:
    urls = [f"{A}/own{o}/repo/{kind}/{n}" for o in range(3) for kind in ("issues", "pull", "blob") for n in range(9)]
    world = World({url: page() for url in urls}, crash=crash, group_pages=("issue=2", "pull=3", "*=8"), seed=3, **REPOS)
    world.seed(*urls)
    world.run()
    done = [task.url for task in fetched_of(world, "a.test")]
    for o in range(3):
        mine = {url for url in done if f"/own{o}/" in url}
        assert len(mine) == 8
        assert sum("/issues/" in url for url in mine) <= 2
        assert sum("/pull/" in url for url in mine) <= 3
    assert world.totals()["queued"] == 0
    assert {task.page_type for task in world.released if "/issues/" in task.url} == {"issue"}


def test_the_bytes_of_a_host_are_never_passed() -> None:
    dice = random.Random(5)
    web = {f"{A}/{n}": page(size=dice.randrange(100, 900)) for n in range(40)}
    world = World(web, host_bytes=5_000, max_body=1_000)
    world.seed(*web)
    while True:
        world.settle_down()
        if not world.tasks():
            break
        for task in world.tasks()[:1]:
            size = 0 if task.kind == "robots" else world.web[task.url].outcomes[0].size  # type: ignore[union-attr]
            over = task.max_bytes and size > task.max_bytes
            world.answer(1, outcome=Failed("over_budget", 200) if over else None)
    record = load(world.states[0].get([host_key("a.test")])[0] or b"")
    assert 4_000 < record.body_bytes <= 5_000
    assert world.reasons("failed_by") in ({}, {"over_budget": 1})
    assert world.reasons("refused_by").keys() == {"cap"}
    assert world.totals()["queued"] == 0


@pytest.mark.parametrize("seed", range(12))
def test_caps_and_a_limit_together_end_and_hold_in_any_web(seed: int) -> None:
    dice = random.Random(seed)
    caps: dict[str, Any] = {"host_pages": dice.choice((0, 3, 6)), "max_pages": dice.choice((0, 9, 20))}
    caps |= {"host_bytes": dice.choice((0, 45, 1000)), "max_body": 20}
    world = World(tangled(seed), partitions=dice.choice((1, 4)), seed=seed, crash=0.1, **caps)
    world.seed("http://h0.test/0")
    world.run()
    per_host: dict[str, set[str]] = {}
    for _, task, outcome in world.log:
        if isinstance(outcome, Fetched):
            per_host.setdefault(task.host, set()).add(task.url)
    totals = world.totals()
    assert all(len(urls) <= (caps["host_pages"] or 99) for urls in per_host.values())
    assert totals["fetched"] <= (caps["max_pages"] or 9999)
    assert totals["queued"] == totals["behind_budget"]
    assert totals["in_flight"] == 0
