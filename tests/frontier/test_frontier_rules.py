"""Rules are compiled so that nobody can make a verdict dear, and judge as they did before they were."""

import sys
from collections.abc import Callable
from functools import partial
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from protego import Protego

from headrace_frontier.robots import LIMIT, RobotsRules
from headrace_frontier.rules import WILD_BYTES, WILD_RULES

SITE = "http://a.test"
PIECES = (
    *("/", "a", "b", "ab", "aa", "*", "$", "?", "=", "&", "-", "~", "%-", ".", "+", ";", "//", "index.html"),
    *("/index.html", "%2F", "%2f", "%41", "%7e", "%3D", "%3d", "%2A", "%24", "%25", "é", "%C3%A9", "%c3%a9", "ツ"),
)
pieces = st.lists(st.sampled_from(PIECES), max_size=7).map("".join)
starts = st.sampled_from(("/", "/", "", "*", "http://a.test/"))
rules = st.tuples(st.sampled_from(("Allow", "Disallow")), starts, pieces)


@given(st.lists(rules, min_size=1, max_size=12), st.lists(pieces, min_size=1, max_size=12))
@settings(max_examples=400, deadline=None)
def test_verdicts_are_those_of_protego(written: list[tuple[str, str, str]], paths: list[str]) -> None:
    text = "User-agent: *\n" + "".join(f"{field}: {start}{rest}\n" for field, start, rest in written)
    known, ours = Protego.parse(text), RobotsRules.parse(text.encode(), "headrace")
    for path in paths:
        url = f"{SITE}/{path}"
        assert ours.allows(url) == known.can_fetch(url, "headrace"), url


def _filled(line: str) -> bytes:
    """A file as long as one may be, of lines that differ."""
    return ("User-agent: *\n" + "".join(line.format(number) for number in range(60_000))).encode()[: LIMIT - 1]


@pytest.mark.parametrize(
    "text",
    [
        _filled("Disallow: /{:x}\n"),
        _filled("Allow:/{:x}$\n"),
        b"User-agent: *\n" + b"".join(b"Disallow: /" + b"a" * n + b"\n" for n in range(950)),
        b"User-agent: *\n" + b"".join(b"Disallow: /*%x\n" % n for n in range(WILD_RULES)),
        b"User-agent: *\n" + b"".join(b"Disallow: /*" + b"a" * (900 + n) + b"ba\n" for n in range(32)),
        b"User-agent: *\n" + b"Disallow: /" + b"*a" * (WILD_BYTES // 2 - 10) + b"\n",
        _filled("User-agent: a{0}\nAllow: /{0}\n"),
        _filled("Sitemap: http://a.test/{}\n"),
        b"User-agent: *\nDisallow: /" + b"%41" * 160_000 + b"\n",
        b"User-agent: *\nDisallow: /" + b"*" * (LIMIT - 100) + b"a\n",
        b"User-agent: *\nDisallow: /" + b"*" * (LIMIT - 100) + b"\n",
        b"\n" * (LIMIT - 1),
        b" " * (LIMIT - 1),
        "\ufeff".encode() * (LIMIT // 3 - 1),
    ],
)
def test_no_file_makes_a_verdict_dear(text: bytes) -> None:
    """Counted in calls of functions, since a clock says more of the machine: a rule that is tried is at least one."""
    ours = RobotsRules.parse(text, "headrace")
    for url in (f"{SITE}/", f"{SITE}/77/{'abc' * 20}", f"{SITE}/{'a' * 2_000}"):
        assert _calls(partial(ours.allows, url)) < 10 * WILD_RULES


def _calls(act: Callable[[], object]) -> int:
    count = 0

    def called(frame: FrameType, event: str, arg: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("line", ["Disallow: /*x{}\n", "Disallow: /" + "a" * 100 + "*{}\n"], ids=["many", "long"])
def test_a_file_of_more_stars_than_are_tried_allows_nothing(line: str) -> None:
    text = "User-agent: *\n" + "".join(line.format(number) for number in range(WILD_RULES + 1))
    verdict = RobotsRules.parse(text.encode(), "headrace").judge(f"{SITE}/a")
    assert not verdict.allowed
    assert verdict.rule.startswith("too many rules with a * inside (line ")
    assert RobotsRules.parse(text.encode(), "headrace").allows(f"{SITE}/robots.txt")
    assert RobotsRules.parse(text.encode() + b"User-agent: headrace\nDisallow: /x\n", "headrace").allows(f"{SITE}/a")


def test_stars_at_the_end_are_not_counted() -> None:
    text = "User-agent: *\n" + "".join(f"Disallow: /{number}/*\n" for number in range(3 * WILD_RULES))
    ours = RobotsRules.parse(text.encode(), "headrace")
    assert ours.judge(f"{SITE}/2/x").rule == "Disallow: /2/* (line 4)"
    assert ours.allows(f"{SITE}/a")


def test_a_rule_longer_than_any_url_does_no_harm() -> None:
    long, most = "a" * 7_000, "a" * 2_000
    text = f"User-agent: *\nDisallow: /{long}\nDisallow: /{long}*x\nDisallow: /{most}\nAllow: /b{'*' * 300_000}\n"
    ours = RobotsRules.parse(text.encode(), "headrace")
    assert len(ours.book.text) < 400_000
    assert not ours.book.wild
    assert ours.judge(f"{SITE}/{most}").rule == f"Disallow: /{'a' * 199}… (line 4)"
    assert ours.judge(f"{SITE}/b").rule == f"Allow: /b{'*' * 198}… (line 5)"


def test_the_rule_that_decides_is_named_among_many() -> None:
    lines = [f"Disallow: /{number}/\nAllow: /{number}/*/ok$\n" for number in range(500)]
    ours = RobotsRules.parse(("User-agent: *\n" + "".join(lines)).encode(), "headrace")
    assert ours.judge(f"{SITE}/7/x").rule == "Disallow: /7/ (line 16)"
    assert ours.judge(f"{SITE}/7/x/ok").rule == "Allow: /7/*/ok$ (line 17)"
    assert ours.judge(f"{SITE}/x").rule == "no rule matches"
