"""Links that come in: each URL is known once, judged by what it is and by how it was found."""

import pytest

from headrace_runtime.streams.seams import Record, Send, Unit
from headrace_schemas import codec
from headrace_schemas.errors import TooNew
from headrace_schemas.messages import DiscoveredLinks, Fetched, Link, Robots
from tests.frontier.explaining import explained
from tests.frontier.world import NOT_FOUND, Page, World, key_of, link, page

A, B = "http://a.test", "http://b.test"


def state_of(world: World, url: str) -> dict[str, object]:
    return explained(world, url)


def test_a_link_found_many_times_is_known_once() -> None:
    world = World({})
    twice = link(f"{A}/x", 1)
    world._append(Send("links.discovered", 0, codec.encode(DiscoveredLinks((twice, twice)), 1)))
    world.find(twice, twice, link(f"{A}/x", 3))
    world.settle_down()
    assert world.totals()["discovered"] == 1


def test_static_policy_turns_links_away_uncounted_in_discovered_but_by_reason() -> None:
    world = World({}, scope_mode="domain", scope_roots=("a.test",))
    world.seed(f"{B}/", "http://www.a.test/", "ftp://a.test/", f"{A}/" + "x" * 3000)
    world.seed(f"{A}/1")
    world.settle_down()
    assert world.totals()["discovered"] == 2
    assert world.reasons("rejected") == {"host_not_allowed": 1, "scheme": 1, "too_long": 1}
    assert world.registry.get_sample_value("crawler_policy_reject_total", {"reason": "host_not_allowed"}) == 1


def test_links_that_the_parser_could_make_no_url_of_are_counted_by_their_reason() -> None:
    world = World({})
    message = DiscoveredLinks((link(f"{A}/x"),), rejected={"scheme": 2, "bad_port": 1})
    world._append(Send("links.discovered", 0, codec.encode(message, 1)))
    world.settle_down()
    assert world.totals()["discovered"] == 1
    assert world.reasons("rejected") == {"scheme": 2, "bad_port": 1}
    assert world.registry.get_sample_value("crawler_policy_reject_total", {"reason": "scheme"}) == 2


def test_a_link_sent_to_the_wrong_partition_is_turned_away() -> None:
    """Taken there, its host would have two clocks."""
    world = World({}, partitions=4)
    right = world.partitioner.partition(f"{A}/")
    wrong = (right + 1) % 4
    world._append(Send("links.discovered", wrong, codec.encode(DiscoveredLinks((link(f"{A}/"),)), 1)))
    world.settle_down(wrong)
    assert world.progress[wrong].rejected == {"misrouted": 1}


def test_garbage_in_a_link_is_turned_away() -> None:
    world = World({})
    world.find(
        Link(f"{A}/", b"short", 0),
        Link(f"{A}/", key_of(f"{A}/"), -1),
        Link("http://[/", key_of("x"), 0),
        Link("http:///", key_of("x"), 0),
        Link(f"{A}/deep", key_of(f"{A}/deep"), 2**40, again=2**50 + 1),
    )
    world.settle_down()
    assert world.reasons("rejected")["malformed"] == 4
    assert world.reasons("refused_by") == {"depth": 1}


def test_a_link_too_deep_is_refused_and_taken_when_found_less_deep() -> None:
    world = World({}, max_depth=2)
    world.find(link(f"{A}/x", 3))
    world.settle_down()
    assert (state_of(world, f"{A}/x")["state"], state_of(world, f"{A}/x")["reason"]) == ("refused", "depth")
    world.find(link(f"{A}/x", 4))
    world.settle_down()
    assert state_of(world, f"{A}/x")["state"] == "refused"
    world.find(link(f"{A}/x", 2))
    world.settle_down()
    assert (state_of(world, f"{A}/x")["state"], state_of(world, f"{A}/x")["depth"]) == ("queued", 2)


def test_a_refused_link_is_judged_again_when_found_under_a_newer_policy() -> None:
    world = World({}, max_depth=2)
    world.find(link(f"{A}/x", 3))
    world.settle_down()
    world.desired.change(max_depth=3)
    world.settle_down()
    assert state_of(world, f"{A}/x")["state"] == "refused"
    world.find(link(f"{A}/x", 3))
    world.settle_down()
    assert state_of(world, f"{A}/x")["state"] == "queued"


def test_too_many_redirects_behind_a_link_refuse_it() -> None:
    world = World({})
    world.find(link(f"{A}/x", 0, hop=6))
    world.settle_down()
    assert world.reasons("refused_by") == {"hop": 1}
    world.find(link(f"{A}/x", 0, hop=2))
    world.settle_down()
    assert state_of(world, f"{A}/x")["state"] == "queued"


def test_a_queued_link_takes_the_lower_depth_and_its_place_in_the_queue() -> None:
    world = World({f"{A}/robots.txt": Page((Robots(404),))})
    world.find(link(f"{A}/deep", 5), link(f"{A}/mid", 3))
    world.settle_down()
    world.find(link(f"{A}/deep", 1, referrer=f"{A}/better"))
    world.settle_down()
    assert state_of(world, f"{A}/deep")["depth"] == 1
    world.run()
    pages = [task for task in world.released if task.kind == "page"]
    assert [(task.url, task.depth, task.referrer) for task in pages] == [
        (f"{A}/deep", 1, f"{A}/better"),
        (f"{A}/mid", 3, ""),
    ]


def test_pages_go_out_breadth_first() -> None:
    world = World({})
    world.find(*(link(f"{A}/{depth}-{n}", depth) for depth in (3, 1, 2, 0) for n in range(5)))
    world.settle_down()
    world.run()
    depths = [task.depth for task in world.released]
    assert depths == sorted(depths)


def test_a_settled_url_is_queued_again_once_per_run_id() -> None:
    world = World({f"{A}/": page()})
    world.seed(f"{A}/")
    world.run()
    for _ in range(3):
        world.find(link(f"{A}/", again=2, etag='"v1"', last_modified="then"))
        world.run()
    assert world.asked[f"{A}/"] == 2
    assert (world.released[-1].etag, world.released[-1].last_modified) == ('"v1"', "then")
    world.find(link(f"{A}/", again=3))
    world.run()
    assert world.asked[f"{A}/"] == 3
    assert world.totals()["fetched"] == 1


def test_a_failed_url_is_tried_again_only_on_request() -> None:
    world = World({f"{A}/": NOT_FOUND})
    world.seed(f"{A}/")
    world.run()
    world.seed(f"{A}/")
    world.run()
    assert world.asked[f"{A}/"] == 1
    world.web[f"{A}/"] = Page((Fetched(200),))
    world.find(link(f"{A}/", again=2))
    world.run()
    assert (world.totals()["fetched"], world.totals()["failed"]) == (1, 0)
    assert world.reasons("failed_by") == {}


def test_a_refresh_needs_no_credit_even_when_the_budget_is_spent() -> None:
    world = World({f"{A}/": page(f"{A}/1", f"{A}/2"), f"{A}/1": page(), f"{A}/2": page()}, max_pages=2)
    world.seed(f"{A}/")
    world.run()
    assert (world.totals()["fetched"], world.totals()["behind_budget"]) == (2, 1)
    world.find(link(f"{A}/", again=2), link(f"{A}/1", again=2))
    world.run()
    assert world.asked[f"{A}/"] == world.asked[f"{A}/1"] == 2
    assert (world.totals()["fetched"], world.totals()["behind_budget"]) == (2, 1)


def test_an_unreadable_message_is_buried_and_the_next_one_handled() -> None:
    world = World({})
    world._append(Send("links.discovered", 0, b"rubbish"))
    world._append(Send("links.discovered", 0, codec.encode(DiscoveredLinks(()), 1)[:-1] + b"\xc1"))
    world.seed(f"{A}/")
    world.settle_down()
    assert world.totals()["discovered"] == 1
    letters = world.sent("dead.letters")
    assert [(letter.topic, letter.group) for letter in letters] == [("links.discovered", "frontier")] * 2


def test_a_message_of_a_newer_release_stops_the_lane() -> None:
    world = World({})
    value = b"H\x63" + codec.encode(DiscoveredLinks(()), 1)[2:]
    with pytest.raises(TooNew):
        world.handlers[0].handle([Record("links.discovered", 0, 0, b"", value, 0.0)], Unit(world.states[0]), 1.0)


def test_an_idle_turn_stages_nothing() -> None:
    world = World({f"{A}/": page()})
    world.seed(f"{A}/")
    world.run()
    assert world.turn(0).empty
    assert world.due[0] is None


def test_a_new_owner_says_where_it_is_before_anything_happens() -> None:
    world = World({})
    world.turn(0)
    assert world.progress[0].owner == "here:1"
