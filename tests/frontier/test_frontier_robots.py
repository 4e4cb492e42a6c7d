"""robots.txt as RFC 9309 and the large crawlers read it."""

import pytest

from headrace_frontier.robots import LIMIT, RobotsRules, compact

SITE = "http://a.test"


def allowed(text: bytes | str, path: str, agent: str = "headrace") -> bool:
    raw = text.encode() if isinstance(text, str) else text
    verdict = RobotsRules.parse(raw, agent).judge(SITE + path)
    kept = RobotsRules.parse(compact(raw), agent).judge(SITE + path)
    assert kept == verdict, "what is kept in the state must judge as the whole did, line numbers included"
    assert RobotsRules.parse(raw, agent).allows(SITE + path) == verdict.allowed
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


def test_a_line_cut_at_the_limit_is_dropped() -> None:
    head = b"User-agent: *\nDisallow: /first\n"
    padding = b"# " + b"x" * (LIMIT - len(head) - 2 - 1 - 12) + b"\n"
    text = head + padding + b"Disallow: /cut-off-here\n"
    assert not allowed(text, "/first")
    assert allowed(text, "/cut")
    assert len(compact(text)) < 100


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
        ("", None),
    ],
)
def test_the_delay_asked_for(line: str, delay: float | None) -> None:
    assert RobotsRules.parse(f"User-agent: *\n{line}\n".encode(), "headrace").crawl_delay == delay


def test_sitemaps_are_found_wherever_they_stand() -> None:
    text = b"Sitemap: http://a.test/1.xml\nUser-agent: x\nDisallow: /\nsitemap: http://a.test/2.xml"
    assert RobotsRules.parse(text, "headrace").sitemaps == ["http://a.test/1.xml", "http://a.test/2.xml"]


def test_a_url_that_cannot_be_read_is_denied_where_there_are_rules() -> None:
    assert not RobotsRules.parse(b"User-agent: *\nDisallow: /x", "headrace").judge("http://a.test/\ud800").allowed
