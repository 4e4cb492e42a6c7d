"""The proof of politeness, from requests in order."""

from collections.abc import Iterator

from headrace_storer.proof import HostProof, prove
from headrace_storer.views import Asked

AT = 1_700_000_000.0


def requests(host: str, *starts: float, delay: float = 1.0) -> list[Asked]:
    return [Asked(host, AT + start, delay, "page", f"http://{host}/{start}") for start in starts]


def only(*asked: Asked, slack: float = 0.0) -> HostProof:
    (proof,) = prove(asked, slack)
    return proof


def test_a_host_asked_once_has_no_gap_and_nothing_short() -> None:
    assert only(*requests("a.test", 0)) == HostProof("a.test", 1, 0, None, None)


def test_a_host_that_was_always_left_alone_long_enough_is_proved() -> None:
    proof = only(*requests("a.test", 0, 1, 2.5, 4))
    assert (proof.requests, proof.short, proof.smallest) == (4, 0, 1.0)
    assert proof.share == 1.0


def test_a_short_gap_names_its_two_requests() -> None:
    proof = only(*requests("a.test", 0, 1, 1.75, 3, 3.9))
    assert proof.short == 2
    assert proof.tightest is not None
    assert (proof.tightest.seconds, proof.tightest.owed) == (0.75, 1.0)
    assert (proof.tightest.before.url, proof.tightest.after.url) == ("http://a.test/1", "http://a.test/1.75")


def test_a_gap_is_held_against_the_delay_of_its_second_request() -> None:
    slow_after_robots = only(*requests("a.test", 0, delay=1.0), *requests("a.test", 2, delay=5.0))
    assert slow_after_robots.short == 1
    quick_after_slow = only(*requests("a.test", 0, delay=5.0), *requests("a.test", 2, delay=1.0))
    assert quick_after_slow.short == 0


def test_the_tightest_gap_is_not_always_the_smallest() -> None:
    proof = only(*requests("a.test", 0, 1, delay=1.0), *requests("a.test", 4, delay=5.0))
    assert proof.tightest is not None
    assert (proof.smallest, proof.tightest.seconds, proof.tightest.owed, proof.short) == (1.0, 3.0, 5.0, 1)


def test_robots_txt_and_hops_count_as_any_request() -> None:
    robots = Asked("a.test", AT, 1.0, "robots", "http://a.test/robots.txt")
    hop = Asked("a.test", AT + 5.5, 0.0, "hop", "http://b.test/robots.txt")
    assert only(robots, *requests("a.test", 0.5)).short == 1
    assert only(hop, *requests("a.test", 6)).short == 1


def test_a_hop_from_another_host_owes_what_the_request_before_it_owed() -> None:
    first, second = (Asked("a.test", AT + at, 0.0, "hop", "http://b.test/robots.txt") for at in (5.5, 6))
    assert only(*requests("a.test", 5), first, second).short == 2
    assert only(*requests("a.test", 4), first).short == 0
    assert only(first, second).short == 0


def test_where_nothing_is_owed_nothing_is_short() -> None:
    proof = only(*requests("a.test", 0, 0, 0.1, delay=0.0))
    assert (proof.short, proof.smallest) == (0, 0.0)


def test_slack_forgives_so_much_and_no_more() -> None:
    asked = requests("a.test", 0, 0.95, 1.85)
    assert [only(*asked, slack=slack).short for slack in (0.0, 0.06, 0.2)] == [2, 1, 0]


def test_the_rounding_of_a_clock_is_no_short_gap() -> None:
    starts = [number * 0.1 for number in range(1_000)]
    assert only(*requests("a.test", *starts, delay=0.1)).short == 0


def test_hosts_are_proved_one_by_one_as_they_are_read() -> None:
    taken: list[str] = []

    def read() -> Iterator[Asked]:
        for asked in [*requests("a.test", 0, 1), *requests("b.test", 0), *requests("c.test", 0, 0.5)]:
            taken.append(asked.host)
            yield asked

    proofs = prove(read())
    assert next(proofs).host == "a.test"
    assert "c.test" not in taken
    assert [(proof.host, proof.short) for proof in proofs] == [("b.test", 0), ("c.test", 1)]
