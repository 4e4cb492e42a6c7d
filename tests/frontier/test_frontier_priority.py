"""Which of a host's URLs is asked for first."""

import pytest

from headrace_frontier.policy import Policy
from headrace_schemas.messages import CrawlSettings
from headrace_schemas.settings import ScopeSettings

POLICY = Policy(CrawlSettings(scope_mode="all", low_priority=ScopeSettings().low_priority))
HIGH, MEDIUM, LOW = range(3)


@pytest.mark.parametrize(
    ("url", "depth", "expected"),
    [
        ("http://a.test/", 9, HIGH),
        ("https://a.test:8443/", 9, HIGH),
        ("http://a.test/?q", 9, LOW),
        ("http://a.test/x", 2, HIGH),
        ("http://a.test/x/", 3, MEDIUM),
        ("http://a.test/x", 5, MEDIUM),
        ("http://a.test/x", 6, LOW),
        ("http://a.test/x?page=2", 1, LOW),
        ("http://a.test/x?homepage=2", 1, HIGH),
        ("http://a.test/blog/page/7/", 1, LOW),
        ("http://a.test/tags/red", 1, LOW),
        ("http://a.test/tagset/red", 1, HIGH),
        ("http://a.test/2024/05/", 1, LOW),
        ("http://a.test/2024/05/a-story", 1, HIGH),
    ],
)
def test_homepages_and_shallow_pages_first_listings_and_deep_ones_last(url: str, depth: int, expected: int) -> None:
    assert POLICY.priority(url, depth) == expected


def test_a_seed_is_first_whatever_it_looks_like() -> None:
    assert POLICY.priority("http://a.test/x?page=2", 0, is_seed=True) == HIGH


def test_without_patterns_only_depth_counts() -> None:
    assert Policy(CrawlSettings(scope_mode="all")).priority("http://a.test/x?page=2", 3) == MEDIUM
