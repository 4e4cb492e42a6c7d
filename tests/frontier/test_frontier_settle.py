"""What becomes of a URL when its answer comes."""

from itertools import pairwise

import pytest

from headrace_frontier.seen import REASONS
from headrace_runtime.streams.seams import Send
from headrace_schemas import codec
from headrace_schemas.messages import (
    FAILURES,
    Deferred,
    Failed,
    Fetched,
    FetchResult,
    Outcome,
    Redirected,
    Refused,
    Robots,
)
from headrace_schemas.settings import RetrySettings
from tests.frontier.explaining import explained
from tests.frontier.world import NOT_FOUND, Page, World, failing, page, redirect

A, B = "http://a.test", "http://b.test"
GOOD = Fetched(200, 10, "ab")


def requests(world: World, url: str) -> list[float]:
    return [at for at, task, _ in world.log if task.url == url]


def test_a_redirect_settles_the_url_and_its_target_is_a_link_with_the_chain() -> None:
    world = World({f"{A}/1": redirect(f"{B}/2"), f"{B}/2": redirect(f"{B}/3"), f"{B}/3": page()}, partitions=4)
    world.seed(f"{A}/1")
    world.run()
    last = world.released[-1]
    assert (last.url, last.hop, last.depth, last.chain) == (f"{B}/3", 2, 0, (f"{A}/1", f"{B}/2"))
    assert (world.totals()["redirected"], world.totals()["fetched"]) == (2, 1)


def test_a_redirect_out_of_scope_ends_there() -> None:
    world = World({f"{A}/": redirect(f"{B}/")}, scope_mode="host", scope_roots=("a.test",))
    world.seed(f"{A}/")
    world.run()
    assert world.asked[f"{B}/"] == 0
    assert world.reasons("rejected") == {"host_not_allowed": 1}


def test_a_long_chain_of_redirects_ends_after_five() -> None:
    world = World({f"{A}/{n}": redirect(f"{A}/{n + 1}") for n in range(20)})
    world.seed(f"{A}/0")
    world.run()
    assert world.reasons("failed_by") == {"too_many_redirects": 1}
    assert world.totals()["redirected"] == 5
    answer, told = (result for result in world.sent("fetch.results") if result.url == f"{A}/5")
    assert told.outcome == Failed("too_many_redirects", 302)
    assert told.fetch_id > answer.fetch_id, "or the row in the index would stay a redirect"
    assert (told.attempt, told.hop, told.chain, told.kind) == (answer.attempt, 5, answer.chain, "page")


def test_a_loop_of_redirects_ends() -> None:
    world = World({f"{A}/1": redirect(f"{A}/2"), f"{A}/2": redirect(f"{A}/1")})
    world.seed(f"{A}/1")
    world.run()
    assert world.totals()["redirected"] == 2


def test_a_redirect_to_another_spelling_is_the_same_url() -> None:
    world = World({f"{A}/x": redirect(f"{A}/x/"), f"{A}/x/": page()})
    world.seed(f"{A}/x")
    world.run()
    assert world.totals()["discovered"] == world.totals()["fetched"] == 1
    assert (world.released[-1].url, world.released[-1].hop) == (f"{A}/x/", 1)


def test_two_spellings_that_redirect_to_each_other_end() -> None:
    world = World({f"{A}/x": redirect(f"{A}/x/"), f"{A}/x/": redirect(f"{A}/x")})
    world.seed(f"{A}/x")
    world.run()
    assert world.reasons("failed_by") == {"too_many_redirects": 1}
    assert world.totals()["discovered"] == 1


def test_a_redirect_to_rubbish_fails() -> None:
    world = World({f"{A}/": Page((Redirected(302, "rubbish", b"k" * 16),))}, partitions=2)
    world.seed(f"{A}/")
    world.run()
    assert world.reasons("failed_by") == {"bad_redirect": 1}
    told = [result.outcome for partition in (0, 1) for result in world.sent("fetch.results", partition)]
    assert Failed("bad_redirect", 302) in told


def test_what_may_pass_is_tried_again_with_growing_waits_then_fails() -> None:
    world = World({f"{A}/": Page((failing(503),))}, retry=RetrySettings(attempts=4, base=1.0, cap=3.0))
    world.seed(f"{A}/")
    world.run()
    at = requests(world, f"{A}/")
    waits = [later - sooner for sooner, later in pairwise(at)]
    assert len(at) == 4
    for wait, longest in zip(waits, (1.0, 2.0, 3.0), strict=True):
        assert longest / 2 <= wait <= longest + 0.2
    assert world.reasons("failed_by") == {"http": 1}
    assert explained(world, f"{A}/")["attempts"] == 4
    assert [task.attempt for task in world.released if task.kind == "page"] == [1, 2, 3, 4]


def test_what_cannot_pass_is_not_tried_again() -> None:
    world = World({f"{A}/": NOT_FOUND, f"{A}/2": Page((Failed("not_html", 200),))})
    world.seed(f"{A}/", f"{A}/2")
    world.run()
    assert world.asked[f"{A}/"] == world.asked[f"{A}/2"] == 1
    assert world.reasons("failed_by") == {"http": 1, "not_html": 1}


@pytest.mark.parametrize(("asked", "least", "most"), [(20.0, 20, 21), (1e12, 3600, 3601), (float("nan"), 0, 1)])
def test_retry_after_is_honoured_up_to_the_limit(asked: float, least: float, most: float) -> None:
    world = World({f"{A}/": Page((failing(429, retry_after=asked), GOOD)), f"{A}/other": page()})
    world.seed(f"{A}/")
    world.run()
    first, second = requests(world, f"{A}/")
    assert least <= second - first <= most


def test_a_host_that_asks_for_time_is_left_alone_altogether() -> None:
    world = World({f"{A}/": Page((failing(429, retry_after=20.0), GOOD)), f"{A}/other": page(), f"{B}/": page()})
    world.seed(f"{A}/", f"{A}/other", f"{B}/")
    world.run()
    first, _ = requests(world, f"{A}/")
    assert requests(world, f"{A}/other")[0] >= first + 20
    assert requests(world, f"{B}/")[0] < first + 20


def test_deferred_spends_no_attempt_and_is_waited_for() -> None:
    world = World({f"{A}/": Page((Deferred(1_000_030.0, "wait"),) * 5 + (GOOD,))}, retry=RetrySettings(attempts=1))
    world.seed(f"{A}/")
    world.run()
    at = requests(world, f"{A}/")
    assert len(at) == 6
    assert at[1] >= 1_000_030.0
    assert {task.attempt for task in world.released} == {1}
    assert world.totals()["fetched"] == 1


@pytest.mark.parametrize("when", [float("inf"), float("nan"), -1.0, 1e300])
def test_deferred_to_an_absurd_time_is_bounded(when: float) -> None:
    world = World({f"{A}/": Page((Deferred(when, "wait"), GOOD))})
    world.seed(f"{A}/")
    world.run()
    assert world.totals()["fetched"] == 1
    assert world.clock.now() < 1_000_000 + 3_700


def test_a_refused_address_is_refused_at_once() -> None:
    world = World({f"{A}/": Page((Refused("address"),))})
    world.seed(f"{A}/")
    world.run()
    assert world.reasons("refused_by") == {"address": 1}
    assert world.asked[f"{A}/"] == 1
    assert world.registry.get_sample_value("crawler_policy_reject_total", {"reason": "address"}) == 1


def test_what_a_refused_robots_txt_leaves_queued_is_counted_by_its_reason() -> None:
    world = World({f"{A}/robots.txt": Page((Refused("address"),))})
    world.seed(f"{A}/1", f"{A}/2")
    world.run()
    assert world.reasons("refused_by") == {"address": 2}
    assert world.registry.get_sample_value("crawler_policy_reject_total", {"reason": "address"}) == 2


@pytest.mark.parametrize("outcome", [GOOD, Failed("http", 404), failing(503), Deferred(0.0, "stale")])
def test_a_result_that_comes_twice_counts_once(outcome: Outcome) -> None:
    world = World({f"{A}/": page()})
    world.seed(f"{A}/")
    world.settle_down()
    world.answer()
    world.settle_down()
    task = world.tasks()[0]
    result = codec.encode(FetchResult(task.fetch_id, task.url, task.key, outcome), 1)
    for _ in range(3):
        world._append(Send("fetch.results", 0, result))
    world.run()
    assert world.totals()["discovered"] == 1
    assert world.registry.get_sample_value("crawler_late_results_total") in (2, 3)  # ours, and the fetcher's own


def test_a_task_nobody_could_read_is_settled_by_its_number_alone() -> None:
    world = World({f"{A}/": page()})
    world.seed(f"{A}/")
    world.settle_down()
    world.answer()
    world.settle_down()
    task = world.tasks()[0]
    world._append(Send("fetch.results", 0, codec.encode(FetchResult(task.fetch_id, "", b"", Failed("poison")), 1)))
    world.settle_down()
    assert world.reasons("failed_by") == {"poison": 1}


def test_a_reason_this_release_does_not_know_is_kept_as_other() -> None:
    world = World({f"{A}/": Page((Failed("sunspots"),))})
    world.seed(f"{A}/")
    world.run()
    assert world.totals()["failed"] == 1
    assert explained(world, f"{A}/")["reason"] == "other"


def test_every_reason_the_protocol_names_is_kept_as_it_is() -> None:
    assert set(FAILURES) <= set(REASONS)


def test_a_page_answered_with_a_robots_txt_fails() -> None:
    world = World({f"{A}/": Page((Robots(200),))})
    world.seed(f"{A}/")
    world.run()
    assert world.reasons("failed_by") == {"protocol": 1}


def test_a_dead_host_is_given_up_and_the_index_is_told_of_every_url() -> None:
    dead = {f"{A}/{n}": Page((failing(0, "connect"),)) for n in range(30)}
    world = World(dead)
    world.seed(*dead)
    world.run()
    assert world.totals()["failed"] == 30
    assert world.reasons("failed_by")["host_dead"] >= 20
    assert sum(world.asked.values()) <= 8  # robots.txt, five failures, one after the cool-down
    told = [r for r in world.sent("fetch.results") if r.outcome == Failed("host_dead")]
    assert len({r.fetch_id for r in told}) == len(told) == world.reasons("failed_by")["host_dead"]
    at = requests(world, world.log[1][1].url)
    assert world.clock.now() - at[0] >= 60
    world.seed(f"{A}/later")
    world.run()
    assert world.asked[f"{A}/later"] == 0
    assert world.sent("fetch.results")[-1].url == f"{A}/later"


def test_a_host_given_up_is_tried_again_in_the_next_run() -> None:
    world = World({f"{A}/{n}": Page((failing(0, "connect"),)) for n in range(10)})
    world.seed(*world.web)
    world.run()
    world.desired.change(run=2)
    world.web[f"{A}/new"] = page()
    world.seed(f"{A}/new")
    world.run()
    assert world.totals()["fetched"] == 1


def test_one_good_answer_closes_the_breaker() -> None:
    web = {f"{A}/{n}": Page((failing(500, retriable=False),)) for n in range(20)}
    web |= {f"{A}/{n}": page() for n in range(0, 20, 4)}
    world = World(web)
    world.seed(*web)
    world.run()
    assert world.totals()["fetched"] == 5
    assert world.reasons("failed_by") == {"http": 15}


def test_bad_pages_tried_again_do_not_make_a_dead_host() -> None:
    web = {f"{A}/{n}": page() for n in range(6)} | {f"{A}/{n}": Page((failing(500),)) for n in range(6, 9)}
    world = World(web)
    world.seed(*web)
    world.run()
    assert world.totals()["fetched"] == 6
    assert world.reasons("failed_by") == {"http": 3}
    assert max(world.asked.values()) == 3


def test_a_host_in_doubt_is_asked_for_something_new_before_a_retry() -> None:
    slow = [f"{A}/{n}" for n in range(4)]
    web = {url: Page((failing(0, "timeout"),)) for url in slow} | {f"{A}/4": page()}
    world = World(web, retry=RetrySettings(base=0.0, cap=0.0))  # due at once, as after a long wait for an answer
    world.seed(*web)
    world.run()
    assert [task.url for _, task, _ in world.log[1:6]] == [*slow, f"{A}/4"]
    assert world.reasons("failed_by") == {"timeout": 4}
