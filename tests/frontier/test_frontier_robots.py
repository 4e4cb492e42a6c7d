"""robots.txt as RFC 9309 and the large crawlers read it."""

import msgspec
import pytest

from headrace_frontier.robots import LIMIT, SITEMAPS, RobotsRules
from headrace_frontier.rules import Judge, Rulebook

SITE = "http://a.test"


def allowed(text: bytes | str, path: str, agent: str = "headrace") -> bool:
    raw = text.encode() if isinstance(text, str) else text
    rules = RobotsRules.parse(raw, agent)
    verdict = rules.judge(SITE + path)
    kept = msgspec.msgpack.decode(msgspec.msgpack.encode(rules.book), type=Rulebook)
    assert Judge(kept).judge(SITE + path) == verdict, "what is kept in the state must judge as the file did"
    assert rules.allows(SITE + path) == verdict.allowed
    return verdict.allowed


@pytest.mark.parametrize(
    ("rules", "path", "expected"),
    [
        ("Disallow: /", "/x", False),
        ("Disallow:", "/x", True),
        ("Disallow: /a", "/abc", False),
        ("Disallow: /a", "/b", True),
        ("Disallow: /a\nAllow: /a/b", "/a/b/c", True),  # 2.2.2: the longest match
        ("Allow: /a/b\nDisallow: /a", "/a/c", False),
        ("Allow: /a\nDisallow: /a", "/a", True),  # equal: allow
        ("Disallow: /*.pdf$", "/x/y.pdf", False),
        ("Disallow: /*.pdf$", "/x/y.pdf?z", True),
        ("Disallow: /a*b", "/axxb", False),
        ("Disallow: /a%3Cd", "/a<d", False),  # 2.2.2: escapes compare by octet
        ("Disallow: /private", "/%70rivate", False),
        ("Disallow: /%70rivate", "/private", False),
        ("Disallow: /a%2Fb", "/a/b", True),
        ("Disallow: /foo/bar/ツ", "/foo/bar/%E3%83%84", False),
        ("disallow : /x", "/x", False),
        ("Dissallow: /x", "/x", False),
        ("Disallow /x", "/x", False),
        ("Disallow /x y", "/x", True),
        ("Disallow: /x # a comment", "/x", False),
        ("Disallow: /x\0/y", "/x", False),
        ("Disallow: /a\u2028Allow: /", "/a", True),  # one rule, not two
        ("Disallow: /" + "*a" * 15 + "*b", "/" + "a" * 200, True),  # no time is lost on many stars
        ("Disallow: /", "/robots.txt", True),
        ("Disallow: /", "/robots.txt?again", True),
        ("Disallow: /", "/robots.txtx", False),
        ("Disallow: /a/b/\nAllow: /a****", "/a/b/c", True),  # 2.2.2: the length as it is written
        ("Allow: /a*\nDisallow: /ab", "/abc", True),  # equal: allow
        ("Disallow: /a/*x*\nAllow: /a/b", "/a/bxx", False),
        ("Disallow: /a/*x\nAllow: /a/bx", "/a/bx", True),
        ("Disallow: /a*b$", "/ab", False),
        ("Disallow: /ab*b$", "/ab", True),  # nothing is matched twice
        ("Disallow: *", "/", False),
        ("Disallow: $", "/", True),
        # 2.2.2: an escape that need not be is none, and what is reserved is not its escape.
        ("Disallow: /%7Ejoe/", "/~joe/", False),
        ("Disallow: /~joe/", "/%7ejoe/", False),
        ("Disallow: /a/b", "/a%2fb", True),
        ("Disallow: /a%2fb", "/a%2Fb", False),
        ("Disallow: /a%2Ab", "/a*b", False),
        ("Disallow: /a%2Ab", "/axb", True),
        ("Disallow: /a%25b", "/a%b", True),
        ("Disallow: /a%", "/a%", False),
        # A dollar that is not at the end is one, and one at the end may be.
        ("Disallow: /a$b", "/a$b", False),
        ("Disallow: /a$b", "/a", True),
        ("Disallow: /a$", "/a", False),
        ("Disallow: /a$", "/a$bc", False),
        ("Disallow: /a$", "/ab", True),
        ("Allow: /index.html\nDisallow: /", "/", True),
    ],
)
def test_rules(rules: str, path: str, expected: bool) -> None:
    assert allowed(f"User-agent: *\n{rules}\n", path) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("User-agent: headrace\nDisallow: /\n\nUser-agent: *\nAllow: /", False),
        ("User-agent: *\nDisallow: /\n\nUser-agent: headrace\nAllow: /", True),
        ("User-agent: HEADRACE/2.0 (x)\nDisallow: /", False),  # the product token only, any case
        ("User-agent: head\nDisallow: /", True),  # the whole token
        ("User-agent: headrace-images\nDisallow: /", True),
        ("User-agent: other\nUser-agent: headrace\nDisallow: /", False),
        ("User-agent: headrace\n\n\nDisallow: /", False),  # a blank line ends nothing
        ("User-agent: headrace\nDisallow: /y\nUser-agent: other\nAllow: /\nUser-agent: headrace\nDisallow: /x", False),
        ("User-agent: headrace\nCrawl-delay: 5\nUser-agent: other\nDisallow: /", False),
        ("Disallow: /", True),  # a rule of no group
        ("User-agent: * \nDisallow: /", False),
        ("User-agent: *bot\nDisallow: /", True),
        ("\ufeffUser-agent: *\nDisallow: /", False),
        ("User-agent: *\nAllow: /y\n\ufeffUser-agent: headrace\nDisallow: /x", False),  # files pasted together
        ("User-agent: headrace\0other\nDisallow: /x\n", False),
        ("User-agent: *\rDisallow: /", False),
        ("User-agent: *\r\nDisallow: /", False),
        ("<html><body>not found</body></html>", True),
        ("", True),
    ],
)
def test_groups(text: str, expected: bool) -> None:
    assert allowed(text, "/x") is expected


def test_bytes_that_are_no_text_do_no_harm() -> None:
    assert not allowed(b"User-agent: *\nDisallow: /x\nDisallow: /\xff\xfe\n", "/x")
    assert allowed(bytes(range(256)) * 50, "/x")


def test_octets_that_are_no_text_are_compared_as_octets() -> None:
    latin = "User-agent: *\nDisallow: /café\n".encode("latin-1")
    assert not allowed(latin, "/caf%E9/menu")
    assert allowed(latin, "/caf%E8/menu")
    assert allowed(latin, "/caf%C3%A9/menu")


def test_a_line_cut_at_the_limit_is_dropped() -> None:
    head = b"User-agent: *\nDisallow: /first\n"
    padding = b"# " + b"x" * (LIMIT - len(head) - 2 - 1 - 12) + b"\n"
    text = head + padding + b"Disallow: /cut-off-here\n"
    assert not allowed(text, "/first")
    assert allowed(text, "/cut")
    assert RobotsRules.parse(text, "headrace").book.text == b"/first"


def test_the_verdict_names_the_line_that_decided() -> None:
    rules = RobotsRules.parse(b"# hi\nUser-agent: *\nDisallow: /private\nAllow: /private/ok\n", "headrace")
    assert rules.judge(f"{SITE}/private/x").rule == "Disallow: /private (line 3)"
    assert rules.judge(f"{SITE}/private/ok").rule == "Allow: /private/ok (line 4)"
    assert rules.judge(f"{SITE}/").rule == "no rule matches"


@pytest.mark.parametrize(
    ("line", "delay"),
    [
        ("Crawl-delay: 2.5", 2.5),
        ("Crawl-delay: nan", None),
        ("Crawl-delay: inf", None),
        ("Crawl-delay: -1", None),
        ("Crawl-delay: soon", None),
        ("Request-rate: 1/5", 5.0),
        ("Request-rate: 2/1m", 30.0),
        ("Request-rate: 0/0", None),
        ("Request-rate: 1/" + "9" * 400, None),  # no float is as large
        ("Request-rate: 1/10 0600-0845", 10.0),
        ("Crawl-delay: 1" + "0" * 400, None),
        ("", None),
    ],
)
def test_the_delay_asked_for(line: str, delay: float | None) -> None:
    assert RobotsRules.parse(f"User-agent: *\n{line}\n".encode(), "headrace").crawl_delay == delay


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("User-agent: *\nCrawl-delay: 9\n\nUser-agent: headrace\nDisallow: /x", None),  # only where the rules come from
        ("User-agent: headrace\nDisallow: /x\n\nUser-agent: *\nCrawl-delay: 9", None),
        ("User-agent: other\nCrawl-delay: 9\n\nUser-agent: *\nDisallow: /x", None),
        ("User-agent: HEADRACE/2.0 (x)\nCrawl-delay: 9\n\nUser-agent: *\nCrawl-delay: 1", "Crawl-delay: 9 (line 2)"),
        ("User-agent: head\nCrawl-delay: 9\nAllow: /\nUser-agent: *\nCrawl-delay: 1", "Crawl-delay: 1 (line 5)"),
        # Groups of the same agent are one, and of what one asks for the largest is owed.
        ("User-agent: *\nCrawl-delay: 9\nAllow: /\nUser-agent: *\nCrawl-delay: 1", "Crawl-delay: 9 (line 2)"),
        ("User-agent: *\nCrawl-delay: 1\nRequest-rate: 1/5\nCrawl-delay: 2", "Request-rate: 1/5 (line 3)"),
        ("User-agent: *\nCrawl-delay: 5\nCrawl-delay: soon", "Crawl-delay: 5 (line 2)"),
        # It is for those named directly above, though a Crawl-delay ends no group: the rules below are for all of them.
        ("User-agent: headrace\nCrawl-delay: 5\nUser-agent: other\nDisallow: /", "Crawl-delay: 5 (line 2)"),
        ("User-agent: headrace\nUser-agent: other\nCrawl-delay: 5\nDisallow: /", "Crawl-delay: 5 (line 3)"),
        ("User-agent: a\nCrawl-delay: 5\nUser-agent: headrace\nCrawl-delay: 7", "Crawl-delay: 7 (line 4)"),
        ("User-agent: headrace\nCrawl-delay: 5\nUser-agent: a\nCrawl-delay: 7", "Crawl-delay: 5 (line 2)"),
        ("User-agent: headrace\nDisallow: /x\nSitemap: http://a.test/s\nCrawl-delay: 7", "Crawl-delay: 7 (line 4)"),
        ("Crawl-delay: 5\nUser-agent: *\nDisallow: /", None),
    ],
)
def test_the_delay_comes_from_the_groups_whose_rules_hold(text: str, asked: str | None) -> None:
    delay = RobotsRules.parse(text.encode(), "headrace").delay
    assert (None if delay is None else delay.rule) == asked


def test_sitemaps_are_found_wherever_they_stand() -> None:
    text = b"Sitemap: http://a.test/1.xml\nUser-agent: x\nDisallow: /\nsitemap: http://a.test/2.xml"
    assert RobotsRules.parse(text, "headrace").sitemaps == ["http://a.test/1.xml", "http://a.test/2.xml"]


def test_so_many_sitemaps_are_taken_and_no_more() -> None:
    text = b"Sitemap: http://a.test/1.xml\n" * (SITEMAPS + 1) + b"Sitemap: http://a.test/" + b"x" * 3_000
    assert len(RobotsRules.parse(text, "headrace").sitemaps) == SITEMAPS


def test_a_url_that_cannot_be_read_is_denied_where_there_are_rules() -> None:
    assert not RobotsRules.parse(b"User-agent: *\nDisallow: /x", "headrace").judge("http://a.test/\ud800").allowed
