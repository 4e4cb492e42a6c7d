"""What goes out, when, and how much of it."""

import pytest

from headrace_frontier.hosts import Host
from headrace_frontier.tuning import Tuning
from headrace_schemas.messages import Deferred, Outcome, Robots
from headrace_schemas.settings import RobotsSettings
from headrace_schemas.urls import host_of, origin_of
from tests.frontier.world import Page, World, failing, link, page

A, B = "http://a.test", "http://b.test"


def test_nothing_is_released_while_paused_or_stopping() -> None:
    world = World({f"{A}/": page()})
    world.desired.change(mode="paused")
    world.seed(f"{A}/")
    world.settle_down()
    world.desired.change(mode="stopping")
    world.settle_down()
    assert world.released == []
    assert world.totals()["queued"] == 1
    world.desired.change(mode="running")
    world.run()
    assert world.totals()["fetched"] == 1


def test_links_are_taken_in_above_the_backlog_but_none_released() -> None:
    world = World({f"{A}/": page()}, max_backlog=10)
    world.circumstances.backlog = 11
    world.seed(f"{A}/")
    world.settle_down()
    assert (world.released, world.totals()["queued"]) == ([], 1)
    world.circumstances.backlog = 10
    world.run()
    assert world.totals()["fetched"] == 1


def test_the_hosts_take_turns_when_the_partition_is_full() -> None:
    world = World({}, tuning=Tuning(partition_window=4), seed=5)
    world.find(*(link(f"http://h{h}.test/{n}", 0) for h in range(8) for n in range(5)))
    world.run()
    hosts = [host_of(task.url) for task in world.released if task.kind == "page"]
    assert len(hosts) == 40
    first_half = hosts[:20]
    assert all(first_half.count(f"h{h}.test") <= 5 for h in range(8))
    assert len(set(hosts[:16])) >= 4


def test_a_host_starts_with_one_task_at_a_time() -> None:
    world = World({})
    world.find(*(link(f"{A}/{n}") for n in range(10)))
    world.settle_down()
    assert [task.kind for task in world.tasks()] == ["robots"]
    world.answer()
    world.settle_down()
    assert len(world.tasks()) == 1


def test_the_window_of_a_host_grows_with_the_time_its_results_take() -> None:
    world = World({}, delay=0.1)
    world.find(*(link(f"{A}/{n}") for n in range(50)))
    world.settle_down()
    world.answer()
    world.settle_down()
    world.clock.advance(1.0)
    world.answer(waited=0.5, latency_ms=20)
    world.settle_down()
    assert len(world.tasks()) == 6  # half a second in the pipeline, a page every tenth
    world.answer(5, outcome=failing(503))
    world.settle_down()
    assert len(world.tasks()) == 1  # and after a failure it is one again


def test_w_h_is_within_its_bounds() -> None:
    host = Host("a", b"12345678")
    host.measured(1000.0, 0.001, 0.0, 1, 64)
    assert host.window == 64
    host.measured(float("nan"), 0.0, 0.0, 1, 64)
    assert host.window == 64
    slow = Host("a", b"12345678")
    slow.measured(0.3, 0.2, 1.0, 1, 64)
    assert slow.window == 1


def test_a_task_carries_the_delay_owed_and_the_end_of_the_verdict() -> None:
    text = b"User-agent: *\nCrawl-delay: 7\n"
    slow = b"User-agent: *\nCrawl-delay: 100000\n"
    rate = b"User-agent: *\nRequest-rate: 1/20\n"
    web = {
        f"http://{n}.test/robots.txt": Page((Robots(200, t),)) for n, t in zip("abc", (text, slow, rate), strict=True)
    }
    world = World(web, delay=2.0, robots=RobotsSettings(ttl=100.0, max_delay=300.0))
    world.seed("http://a.test/", "http://b.test/", "http://c.test/", "http://d.test/")
    world.run()
    delays = {host_of(task.url): task.delay for task in world.released if task.kind == "page"}
    assert delays == {"a.test": 7.0, "b.test": 300.0, "c.test": 20.0, "d.test": 2.0}
    task = world.released[-1]
    assert 0 < task.valid_until - task.released_at <= 100.0


def test_every_origin_of_a_host_has_its_own_robots_txt() -> None:
    world = World({"http://a.test:81/robots.txt": Page((Robots(200, b"User-agent: *\nDisallow: /"),))})
    world.seed("http://a.test/", "https://a.test/", "http://a.test:81/")
    world.run()
    assert {origin_of(t.url) for t in world.released if t.kind == "robots"} == {
        "http://a.test",
        "https://a.test",
        "http://a.test:81",
    }
    assert world.reasons("refused_by") == {"robots_disallow": 1}


def test_an_origin_whose_robots_txt_is_slow_does_not_hold_up_the_others_of_its_host() -> None:
    world = World({"http://a.test:81/robots.txt": Page((failing(0, "timeout"), Robots(200)))})
    world.seed("http://a.test:81/", "http://a.test/")
    world.run()
    order = [task.url for _, task, _ in world.log if task.kind == "page"]
    assert order == ["http://a.test/", "http://a.test:81/"]


@pytest.mark.parametrize(("status", "fetched"), [(200, 1), (404, 1), (403, 1), (301, 1)])
def test_an_answered_robots_txt_allows_what_it_does_not_disallow(status: int, fetched: int) -> None:
    world = World({f"{A}/robots.txt": Page((Robots(status),)), f"{A}/": page()})
    world.seed(f"{A}/")
    world.run()
    assert world.totals()["fetched"] == fetched


@pytest.mark.parametrize("answer", [Robots(503), Robots(429), failing(500), failing(0, "dns", retriable=False)])
def test_a_robots_txt_that_cannot_be_had_gives_its_origin_up_after_three_tries(answer: Robots) -> None:
    world = World({f"{A}/robots.txt": Page((answer,))})
    world.seed(*(f"{A}/{n}" for n in range(5)))
    world.run()
    assert world.asked[f"{A}/robots.txt"] == 3
    assert world.reasons("failed_by") == {"robots_unavailable": 5}
    world.seed(f"{A}/later")
    world.run()
    assert world.reasons("failed_by") == {"robots_unavailable": 6}
    assert world.asked[f"{A}/robots.txt"] == 3
    world.desired.change(run=2)
    world.web[f"{A}/robots.txt"] = Page((Robots(404),))
    world.web[f"{A}/now"] = page()
    world.seed(f"{A}/now")
    world.run()
    assert world.totals()["fetched"] == 1


def test_a_robots_txt_that_comes_at_the_third_try_counts() -> None:
    world = World({f"{A}/robots.txt": Page((failing(503), failing(0, "timeout"), Robots(200))), f"{A}/": page()})
    world.seed(f"{A}/")
    world.run()
    assert world.totals()["fetched"] == 1


@pytest.mark.parametrize("answer", [failing(503), failing(0, "connect"), failing(0, "timeout"), Robots(429)])
def test_a_server_that_stumbles_for_some_seconds_loses_no_page_by_its_robots_txt(answer: Outcome) -> None:
    world = World({f"{A}/robots.txt": Page((answer,)), f"{A}/": page()})
    world.seed(f"{A}/")
    began = world.clock.now()
    while world.clock.now() < began + 10.0:
        world.settle_down()
        world.answer()
        world.clock.advance(1.0)
    assert world.totals()["queued"] == 1
    world.web[f"{A}/robots.txt"] = Page((Robots(200),))
    world.run()
    assert world.totals()["fetched"] == 1


@pytest.mark.parametrize("reason", ["dns", "tls"])
def test_an_origin_without_a_server_is_given_up_as_soon_as_ever(reason: str) -> None:
    world = World({f"{A}/robots.txt": Page((failing(0, reason),))})
    world.seed(f"{A}/")
    began = world.clock.now()
    world.run()
    assert world.reasons("failed_by") == {"robots_unavailable": 1}
    assert world.clock.now() - began < 10.0


def test_a_large_queue_is_given_up_in_bounded_batches() -> None:
    world = World({f"{A}/robots.txt": Page((failing(0, "connect"),))}, tuning=Tuning(unfetched=10))
    world.find(*(link(f"{A}/{n}") for n in range(95)))
    world.run()
    assert world.reasons("failed_by") == {"robots_unavailable": 95}
    per_time = [r.finished_at for r in world.sent("fetch.results") if r.outcome.reason == "robots_unavailable"]
    assert len(per_time) == 95


@pytest.mark.parametrize(
    ("configured", "text", "wait"),
    [(0.0, b"", 20.0), (200.0, b"", 200.0), (1.0, b"User-agent: *\nCrawl-delay: 300", 300.0)],
)
@pytest.mark.parametrize("ttl", [0.0, 10.0])
def test_a_robots_txt_is_good_for_the_next_page_however_short_it_is_believed(
    configured: float, text: bytes, wait: float, ttl: float
) -> None:
    world = World({f"{A}/{n}": page() for n in range(3)}, delay=configured, robots=RobotsSettings(ttl=ttl))
    world.web[f"{A}/robots.txt"] = Page((Robots(200, text),))
    world.seed(*(f"{A}/{n}" for n in range(3)))
    for _ in range(20):
        world.settle_down()
        for task in world.tasks():
            turn = world.clock.now() + (0.0 if task.kind == "robots" else wait)
            late = turn > task.valid_until
            world.answer(outcome=Deferred(turn, "stale") if late else None)
        world.clock.advance(wait)
    assert world.totals()["fetched"] == 3
    assert world.asked[f"{A}/robots.txt"] <= 3


def test_an_expired_robots_txt_is_asked_for_before_anything_else() -> None:
    world = World({f"{A}/{n}": page() for n in range(3)}, robots=RobotsSettings(ttl=100.0))
    world.seed(f"{A}/0")
    world.run()
    world.clock.advance(101)
    world.web[f"{A}/robots.txt"] = Page((Robots(200, b"User-agent: *\nDisallow: /2"),))
    world.seed(f"{A}/1", f"{A}/2")
    world.run()
    assert [task.kind for task in world.released] == ["robots", "page", "robots", "page"]
    assert world.reasons("refused_by") == {"robots_disallow": 1}
    assert world.registry.get_sample_value("crawler_robots_denials_total") == 1


def test_an_old_good_robots_txt_is_believed_while_a_newer_one_cannot_be_had() -> None:
    world = World({f"{A}/{n}": page() for n in range(3)}, robots=RobotsSettings(ttl=100.0))
    world.web[f"{A}/robots.txt"] = Page((Robots(200, b"User-agent: *\nDisallow: /2"), failing(503)))
    world.seed(f"{A}/0")
    world.run()
    world.clock.advance(101)
    world.seed(f"{A}/1", f"{A}/2")
    world.run()
    assert (world.totals()["fetched"], world.reasons("refused_by")) == (2, {"robots_disallow": 1})
    world.clock.advance(31 * 86_400)
    world.web[f"{A}/3"] = page()
    world.seed(f"{A}/3")
    world.run()
    assert world.reasons("failed_by") == {"robots_unavailable": 1}


def test_another_agent_in_the_settings_is_judged_by_its_own_group() -> None:
    text = b"User-agent: headrace\nAllow: /\nUser-agent: other\nDisallow: /"
    world = World({f"{A}/robots.txt": Page((Robots(200, text),)), f"{A}/1": page(), f"{A}/2": page()})
    world.seed(f"{A}/1")
    world.run()
    world.desired.change(agent="other")
    world.seed(f"{A}/2")
    world.run()
    assert (world.totals()["fetched"], world.totals()["refused"]) == (1, 1)


def test_progress_names_the_busiest_hosts_and_the_next_due_time() -> None:
    world = World({})
    world.desired.change(mode="paused")
    world.find(*(link(f"http://h{h}.test/{n}") for h in range(7) for n in range(h + 1)))
    for _ in range(10):
        world.turn(0)
    progress = world.progress[0]
    assert progress.busiest[:2] == (("h6.test", 7), ("h5.test", 6))
    assert len(progress.busiest) == 5
    assert progress.next_due > 0
    assert world.registry.get_sample_value("crawler_frontier_size") == 28
    assert world.registry.get_sample_value("crawler_hosts_waiting") == 7


def test_releases_are_numbered_from_the_time_so_that_a_new_frontier_is_newer_than_one_that_was_lost() -> None:
    first, later = (World({f"http://a.test/{n}": page() for n in range(20)}) for _ in range(2))
    later.clock.advance(1.0)
    numbers = []
    for world in (first, later):
        world.find(*(link(url) for url in world.web))
        world.run()
        numbers.append(sorted(task.fetch_id for _, task, _ in world.log))
        assert numbers[-1] == list(range(numbers[-1][0], numbers[-1][0] + 21))
    assert min(numbers[1]) > max(numbers[0])
