"""What is said of a URL, and why nothing happens to it, from the state a crawl has left."""

from typing import Any

import pytest

from headrace.commands.explain import as_lines
from headrace_frontier.audit import Audit, state_hash
from headrace_frontier.counters import COUNTERS
from headrace_frontier.counters import load as load_counters
from headrace_frontier.hosts import host_id
from headrace_frontier.queues import READY
from headrace_frontier.waits import MOST_AHEAD
from headrace_runtime.streams.seams import Unit
from headrace_schemas.errors import UsageError
from headrace_schemas.messages import Robots
from headrace_schemas.settings import BreakerSettings
from tests.frontier.explaining import explained, explainer
from tests.frontier.world import ALLOW_ALL, Page, World, failing, link, page, redirect

A, B = "http://a.test", "http://b.test"


def waits(world: World, url: str) -> list[str]:
    return [wait["for"] for wait in explained(world, url)["waits"]]


def in_words(facts: dict[str, Any]) -> str:
    return "\n".join(as_lines(facts | {"running": True, "unread": 0, "answers": None}))


def ready(world: World, *urls: str) -> None:
    """robots.txt is known, one task of the host is under way, the rest is queued."""
    world.seed(*urls)
    world.settle_down(most=50 + len(urls))  # a seed is a message here, and a unit may read only a few
    world.answer()
    world.settle_down()


def web(*urls: str) -> dict[str, Page]:
    return {f"{A}/robots.txt": ALLOW_ALL, f"{B}/robots.txt": ALLOW_ALL, **{url: page() for url in urls}}


def test_a_url_never_found_is_judged_all_the_same() -> None:
    world = World(web(f"{A}/"), scope_mode="host", scope_roots=("a.test",))
    known = explained(world, f"{A}/x")
    assert (known["state"], known["host"], known["robots"], known["waits"]) == ("unknown", None, None, [])
    assert known["scope"]["allowed"]
    strange = explained(world, f"{B}/x")
    assert (strange["scope"]["allowed"], strange["scope"]["reason"]) == (False, "host_not_allowed")
    assert "scope.mode" in strange["scope"]["rule"]


def test_what_is_no_url_is_refused_with_the_reason() -> None:
    with pytest.raises(UsageError, match="no http"):
        explainer(World({})).find("mailto:a@b.test")


def test_before_robots_txt_is_answered_it_is_what_a_url_waits_for() -> None:
    world = World(web(f"{A}/"))
    world.seed(f"{A}/")
    world.settle_down()
    assert waits(world, f"{A}/") == ["robots_asked"]
    assert explained(world, f"{A}/")["robots"]["standing"] == "asked"


def test_a_robots_txt_that_failed_is_waited_for_until_its_next_try() -> None:
    world = World({f"{A}/robots.txt": Page((failing(503),)), f"{A}/": page()})
    ready(world, f"{A}/")
    said = explained(world, f"{A}/")
    assert "robots" in [wait["for"] for wait in said["waits"]]
    assert said["robots"]["retry_at"] > world.clock.now()
    assert said["robots"]["tries"] == 1


def test_a_queued_url_says_where_it_was_found_and_what_is_ahead_of_it() -> None:
    links = tuple(f"{A}/{number}" for number in range(5))
    world = World({**web(*links), f"{A}/": page(*links)}, delay=2.0)
    ready(world, f"{A}/")
    world.answer()
    world.settle_down()
    last = explained(world, links[-1])
    assert last["state"] == "queued"
    assert last["found"] == {"referrer": f"{A}/", "depth": 1, "hop": 0, "chain": []}
    assert (last["queue"]["ahead"], last["queue"]["more"], last["queue"]["priority"]) == (3, False, "high")
    [turn] = last["waits"]
    assert turn["for"] == "turn"
    assert turn["until"] == pytest.approx(world.clock.now() + 4 * 2.0)  # three ahead of it and one under way


def test_what_is_ahead_is_counted_up_to_a_bound() -> None:
    urls = [f"{A}/{number}" for number in range(MOST_AHEAD + 10)]
    world = World(web(*urls), audited=False)
    ready(world, *urls)
    world.settle_down()
    last = explained(world, urls[-1])
    assert (last["queue"]["ahead"], last["queue"]["more"]) == (MOST_AHEAD, True)
    assert last["waits"][0]["at_least"]


def test_a_url_in_flight_says_since_when_and_under_which_number() -> None:
    world = World(web(f"{A}/"))
    ready(world, f"{A}/")
    said = explained(world, f"{A}/")
    [task] = world.tasks()
    assert said["state"] == "in_flight"
    assert said["lease"] == {"fetch_id": task.fetch_id, "since": task.released_at, "attempt": 1}
    assert waits(world, f"{A}/") == ["answer"]


def test_a_redirect_shows_the_chain_that_led_there() -> None:
    world = World({**web(f"{A}/b"), f"{A}/a": redirect(f"{A}/b")})
    ready(world, f"{A}/a")
    world.answer()
    world.settle_down()
    assert explained(world, f"{A}/a")["state"] == "redirected"
    said = explained(world, f"{A}/b")
    assert (said["hop"], said["found"]["chain"]) == (1, [f"{A}/a"])


def test_pause_and_stop_are_named_before_all_else() -> None:
    world = World(web(f"{A}/1", f"{A}/2"))
    ready(world, f"{A}/1", f"{A}/2")
    world.desired.change(mode="paused")
    assert waits(world, f"{A}/2")[0] == "paused"
    world.desired.change(mode="stopping")
    assert waits(world, f"{A}/2")[0] == "stopping"


def test_a_retry_is_due_at_a_time() -> None:
    world = World({**web(), f"{A}/": Page((failing(500),))})
    ready(world, f"{A}/")
    world.answer()
    world.settle_down()
    said = explained(world, f"{A}/")
    assert (said["attempts"], waits(world, f"{A}/")) == (1, ["retry"])
    assert said["waits"][0]["until"] == said["queue"]["not_before"] > world.clock.now()


def test_a_host_that_asked_to_be_left_alone_is_held_until_then() -> None:
    world = World({**web(f"{A}/2"), f"{A}/1": Page((failing(503, retry_after=120.0),))})
    ready(world, f"{A}/1", f"{A}/2")
    world.answer()
    world.settle_down()
    said = {wait["for"]: wait for wait in explained(world, f"{A}/2")["waits"]}
    assert said["retry_after"]["until"] == pytest.approx(world.clock.now() + 120, abs=1)


def test_a_host_in_cool_down_says_until_when() -> None:
    urls = [f"{A}/{number}" for number in range(4)]
    world = World(
        {**web(), **{url: Page((failing(0, "connect"),)) for url in urls}}, breaker=BreakerSettings(failures=1)
    )
    ready(world, *urls)
    world.answer()
    world.settle_down()
    said = explained(world, urls[-1])
    assert said["waits"][0]["for"] == "breaker"
    assert said["waits"][0]["until"] > world.clock.now() + 50
    assert said["host"]["breaker"] == "open"


def test_a_spent_budget_is_the_reason() -> None:
    world = World(web(f"{A}/1", f"{A}/2"), max_pages=1)
    ready(world, f"{A}/1", f"{A}/2")
    world.run()
    left = [url for url in (f"{A}/1", f"{A}/2") if explained(world, url)["state"] == "queued"]
    assert [waits(world, url) for url in left] == [["budget"]]


def test_a_cap_that_refused_it_is_named_and_raising_it_lets_it_in_if_found_again() -> None:
    for caps, more, name in (
        ({"host_pages": 1}, {"host_pages": 2}, "limits.host_pages is 1"),
        ({"host_bytes": 10, "max_body": 10}, {"host_bytes": 50}, "limits.host_bytes is 10"),
        (
            {"group": r"^http://([^/]+)/", "group_pages": ("page=1", "*=9")},
            {"group_pages": ("page=2", "*=9")},
            "limits.group_pages has page=1",
        ),
    ):
        world = World(web(f"{A}/1", f"{A}/2"), **caps)
        world.seed(f"{A}/1", f"{A}/2")
        world.run()
        [left] = [url for url in (f"{A}/1", f"{A}/2") if explained(world, url)["state"] == "refused"]
        said = explained(world, left)
        assert (said["reason"], said["cap"], said["if_found_again"]) == ("cap", name, False)
        assert f"{name}, which is spent: with more, it would be taken if found again" in in_words(said)
        world.desired.change(**more)
        assert (explained(world, left)["cap"], explained(world, left)["if_found_again"]) == ("", True)
        world.find(link(left, 1))
        world.run()
        assert (explained(world, left)["state"], explained(world, left)["if_found_again"]) == ("fetched", False)


def test_what_was_too_deep_is_taken_if_found_again_once_it_no_longer_is() -> None:
    world = World(web(f"{A}/1"), max_depth=2)
    world.find(link(f"{A}/1", 3))
    world.run()
    assert not explained(world, f"{A}/1")["if_found_again"]
    world.desired.change(delay=0.5)
    assert not explained(world, f"{A}/1")["if_found_again"]
    world.desired.change(max_depth=3)
    assert "next     the settings have changed since: it would be taken" in in_words(explained(world, f"{A}/1"))
    world.find(link(f"{A}/1", 3))
    world.run()
    assert explained(world, f"{A}/1")["state"] == "fetched"


def test_back_pressure_is_the_reason() -> None:
    world = World(web(f"{A}/1", f"{A}/2"), max_backlog=10)
    ready(world, f"{A}/1", f"{A}/2")
    world.circumstances.backlog = 11
    [wait] = explained(world, f"{A}/2")["waits"]
    assert wait == {"for": "backlog", "behind": 11, "limit": 10}


def test_what_is_under_way_may_use_up_the_cap_of_a_host() -> None:
    world = World(web(f"{A}/1", f"{A}/2"), host_pages=1)
    ready(world, f"{A}/1", f"{A}/2")
    assert waits(world, f"{A}/2") == ["cap_busy"]


def test_robots_txt_that_forbids_is_shown_with_its_line() -> None:
    text = b"User-agent: *\nCrawl-delay: 7\nDisallow: /private/\nSitemap: http://a.test/map.xml\n"
    world = World({f"{A}/robots.txt": Page((Robots(200, text),)), f"{A}/private/x": page()})
    ready(world, f"{A}/private/x")
    said = explained(world, f"{A}/private/x")
    assert (said["state"], said["reason"]) == ("refused", "robots_disallow")
    assert said["robots"]["rule"] == "Disallow: /private/ (line 3)"
    assert said["robots"]["fetched_at"] > 0
    assert said["robots"]["sitemaps"] == 1
    assert said["host"]["delay"] == 7.0


def test_a_policy_that_became_stricter_is_told_of_what_is_still_queued() -> None:
    world = World(web(f"{A}/1", f"{A}/2"))
    ready(world, f"{A}/1", f"{A}/2")
    world.desired.change(scope_mode="host", scope_roots=("b.test",))
    assert waits(world, f"{A}/2") == ["scope"]


# ---- the audit can fail --------------------------------------------------------------------------


def broken(world: World, key: bytes, value: bytes | None) -> list[str]:
    unit = Unit(world.states[0])
    if value is None:
        unit.delete(key)
    else:
        unit.put(key, value)
    world.states[0].apply(unit)
    return list(Audit(world.states[0]).differences())


def test_a_counter_that_is_wrong_is_a_difference_with_both_numbers() -> None:
    world = World(web(f"{A}/1", f"{A}/2"))
    ready(world, f"{A}/1", f"{A}/2")
    counters = load_counters(world.states[0].get([COUNTERS])[0])
    counters.states[1] += 3
    assert broken(world, COUNTERS, counters.encoded()) == ["queued: 4 by the books, 1 by the URLs"]


@pytest.mark.parametrize("prefix", [b"s", b"q", b"h", b"d", b"f", b"b"])
def test_no_entry_can_be_lost_unnoticed(prefix: bytes) -> None:
    urls = [f"{A}/1", f"{A}/2", f"{B}/1", f"{B}/2"]
    world = World(web(*urls), max_pages=9)
    ready(world, *urls)
    world.answer(1)
    world.clock.advance(1.0)
    world.desired.change(mode="paused")
    world.settle_down()
    found = list(world.states[0].scan(prefix, bytes([prefix[0] + 1])))
    assert found
    assert broken(world, found[0][0], None)


def test_a_queued_url_of_no_host_is_found() -> None:
    world = World(web(f"{A}/1", f"{A}/2"))
    ready(world, f"{A}/1", f"{A}/2")
    start = READY + host_id("a.test")
    [(key, value), *_] = world.states[0].scan(start, start + b"\xff" * 12)
    lines = broken(world, READY + host_id("nobody.test") + key[9:], value)
    assert "1 places in queues are of no host that is known" in lines


def test_the_hash_of_a_state_tells_any_change() -> None:
    world = World(web(f"{A}/1"))
    ready(world, f"{A}/1")
    before = state_hash(world.states[0])
    assert before == state_hash(world.states[0])
    broken(world, b"zz", b"")
    assert state_hash(world.states[0]) != before
