"""Which URLs are wanted: the same answer for the crawl, for `policy check` and for `explain`."""

import pytest

from headrace_frontier.policy import Policy
from headrace_schemas.messages import CrawlSettings


@pytest.mark.parametrize(
    ("mode", "roots", "url", "reason"),
    [
        ("domain", ("a.co.uk",), "https://x.y.a.co.uk/", ""),
        ("domain", ("a.co.uk",), "https://b.co.uk/", "host_not_allowed"),
        ("domain", ("127.0.0.1",), "http://127.0.0.1:8080/", ""),
        ("domain", ("127.0.0.1",), "http://127.0.0.2/", "host_not_allowed"),
        ("domain", (), "http://a.test/", "host_not_allowed"),
        ("host", ("a.test",), "http://a.test:81/", ""),
        ("host", ("a.test",), "http://www.a.test/", "host_not_allowed"),
        ("all", (), "http://anything.test/", ""),
        ("all", (), "mailto:x@a.test", "scheme"),
        ("all", (), "http://a.test/" + "x" * 2_100, "too_long"),
        ("all", (), "http:///", "malformed"),
    ],
)
def test_scope(mode: str, roots: tuple[str, ...], url: str, reason: str) -> None:
    verdict = Policy(CrawlSettings(scope_mode=mode, scope_roots=roots)).judge(url)  # type: ignore[arg-type]
    assert (verdict.allowed, verdict.reason) == (not reason, reason)
    assert verdict.rule


def test_depth_and_hops_are_circumstances() -> None:
    policy = Policy(CrawlSettings(scope_mode="all", max_depth=2))
    assert policy.judge("http://a.test/", 2).allowed
    too_deep = policy.judge("http://a.test/", 3)
    assert (too_deep.reason, too_deep.circumstance) == ("depth", True)
    assert "limits.max_depth is 2" in too_deep.rule
    assert policy.judge("http://a.test/", 0, hop=6).reason == "hop"
