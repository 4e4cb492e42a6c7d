"""Hosts, patterns, page types, groups: every verdict names the setting that decided."""

import re
from pathlib import Path
from typing import Any

import pytest

from headrace.desired import crawl_settings_of
from headrace_frontier.policy import Policy
from headrace_runtime import config
from headrace_runtime.config_checks import together
from headrace_schemas.errors import UsageError
from headrace_schemas.messages import CrawlSettings
from headrace_schemas.patterns import Patterns
from headrace_schemas.urls import Canonicaliser, as_found

PROFILES = Path(__file__).parents[2] / "deploy" / "profiles"


def policy(**settings: Any) -> Policy:
    return Policy(CrawlSettings(**{"scope_mode": "all", **settings}))


@pytest.mark.parametrize(
    ("url", "reason", "rule"),
    [
        ("http://seed.test/", "", "scope.mode is domain and seed.test is a seed's"),
        ("http://a.seed.test/", "", "seed.test"),
        ("http://one.other.test/", "", "scope.hosts has one.other.test"),
        ("http://two.other.test/", "host_not_allowed", "other.test"),
        ("http://x.one.other.test/", "host_not_allowed", "neither scope.hosts nor scope.domains"),
        ("http://deep.below.third.test/", "", "scope.domains has third.test"),
        ("http://notthird.test/", "host_not_allowed", "notthird.test"),
        ("http://private.seed.test/", "subdomain_denied", "scope.deny_hosts has private.seed.test"),
        ("http://x.private.seed.test:81/", "subdomain_denied", "private.seed.test"),
        ("http://private.seed.test./", "subdomain_denied", "private.seed.test"),
        ("http://notprivate.seed.test/", "", "seed.test"),
        ("http://xn--bcher-kva.test/", "", "xn--bcher-kva.test"),
        ("http://127.0.0.1/", "host_not_allowed", "127.0.0.1"),
    ],
)
def test_a_host_is_in_scope_by_a_seed_a_host_or_a_domain_and_out_by_a_denial(url: str, reason: str, rule: str) -> None:
    judge = Policy(
        CrawlSettings(
            scope_roots=("seed.test",),
            scope_hosts=("ONE.other.test", "bücher.test"),
            scope_domains=("third.test", "0.0.1.test"),
            scope_deny_hosts=("private.seed.test",),
        )
    )
    verdict = judge.judge(url)
    assert (verdict.reason, verdict.allowed) == (reason, not reason)
    assert rule in verdict.rule


def test_denied_hosts_win_where_any_host_is_allowed() -> None:
    assert policy(scope_deny_hosts=("a.test",)).judge("http://b.a.test/").reason == "subdomain_denied"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://a.test@evil.test/", "userinfo"),
        ("http://a.test:80@evil.test/", "userinfo"),
        ("http://a.test:@evil.test", "userinfo"),
        ("http://a.test\\@evil.test/", "userinfo"),
        ("http://evil.test?.a.test/", "malformed"),
        ("http://evil.test#.a.test/", "malformed"),
        ("http://evil.test\\.a.test/", "malformed"),
        ("http://evil.test\t.a.test/", "malformed"),
        ("http://A.test/", "malformed"),
        ("http://ä.a.test/", "malformed"),
        ("http://[::1/", "malformed"),
        ("http://./", "malformed"),
        ("http://", "malformed"),
        ("http://a.test:99999/", "bad_port"),
        ("http://a.test:0/", "bad_port"),
        ("http://a.test:x/", "bad_port"),
        ("http://a.test:/", "bad_port"),
        ("ftp://a.test/", "scheme"),
    ],
)
def test_a_forged_link_is_not_judged_by_a_host_it_does_not_lead_to(url: str, reason: str) -> None:
    verdict = Policy(CrawlSettings(scope_roots=("a.test",))).static(url)
    assert (verdict.allowed, verdict.reason) == (False, reason)


def test_a_denied_pattern_wins_over_an_allowed_one_and_is_named() -> None:
    judge = policy(scope_allow=("/docs/", "/blog/"), scope_deny=(r"\.pdf$", "/docs/old"))
    assert judge.judge("http://a.test/blog/1").rule == "scope.allow has /blog/"
    denied = judge.judge("http://a.test/docs/old/a.pdf")
    assert (denied.reason, denied.rule) == ("denied_pattern", r"scope.deny has \.pdf$")
    assert judge.judge("http://a.test/docs/old/a").rule == "scope.deny has /docs/old"
    assert judge.judge("http://a.test/shop").reason == "not_in_allowlist"


def test_a_pattern_that_would_take_a_backtracking_engine_for_ever_is_answered() -> None:
    judge = policy(scope_deny=("(a+)+$", "(a|aa)+!", "(.*a){12}b"))
    assert judge.judge("http://h.test/" + "a" * 1_900 + "?").allowed


def test_thousands_of_patterns_give_the_same_answer_at_once_and_one_by_one() -> None:
    texts = [f"/p{number}/[a-z]{{3}}$" for number in range(2_000)]
    patterns = Patterns(texts)
    assert patterns.first("http://a.test/p1234/abc") == 1_234
    assert patterns.first("http://a.test/p1234/abcd") == len(texts)
    assert patterns._one_by_one("http://a.test/p1234/abc") == 1_234
    assert patterns._one_by_one("http://a.test/") == len(texts)


@pytest.mark.parametrize("path", ["/%70rivate", "/priv%61te?%C3%A9", "/%70%72%69%76%61%74%65", "/x/.%2E/priva%74e"])
def test_an_escape_that_nobody_needs_hides_nothing_from_a_pattern(path: str) -> None:
    url = as_found("http://a.test" + path)
    assert policy(scope_deny=("^http://a.test/private",)).judge(url).reason == "denied_pattern"
    assert policy(scope_allow=("/private",)).judge(url).allowed
    assert policy(page_types=("own=/private",)).page_type(url) == "own"
    assert policy(group="^http://a.test/([a-z]+)").group(url) == "private"


@pytest.mark.parametrize(("path", "pattern"), [("/a%2Fb", "/a%2Fb$"), ("/%2570", "/%2570$"), ("/%C3%A9", "/%C3%A9$")])
def test_an_escape_that_means_something_is_searched_as_it_stands(path: str, pattern: str) -> None:
    assert not policy(scope_deny=(pattern,)).judge(as_found("http://a.test" + path)).allowed


def test_exactly_what_the_canonical_form_decodes_is_decoded_for_patterns() -> None:
    for number in range(256):
        url = f"http://a.test/%{number:02X}"
        decoded = Canonicaliser().canonical(url)[14:]
        assert policy(scope_deny=(rf"^http://a\.test/{re.escape(decoded)}$",)).judge(url).allowed is False, url


def test_the_first_page_type_that_matches_names_the_page() -> None:
    judge = policy(page_types=("issue=/issues/[0-9]+$", "issues=/issues"), follow_only=("issues",))
    kinds = [judge.page_type(f"http://a.test{path}") for path in ("/issues/12", "/issues/new", "/")]
    assert kinds == ["issue", "issues", "page"]
    assert [judge.stored(kind) for kind in kinds] == [True, False, True]
    assert not policy(follow_only=("page",)).stored("page")


def test_captures_name_a_group_and_caps_are_by_type_and_in_all() -> None:
    judge = policy(group="^http://a.test/([^/]+)/([^/]+)(/x)?", group_pages=("issue=3", "*=10"))
    assert judge.group("http://a.test/o/r/issues") == "o/r/"
    assert judge.group("http://a.test/o/r/x") == "o/r//x"
    assert judge.group("http://a.test/o") == ""
    assert (judge.group_cap("issue"), judge.group_cap("page"), judge.group_cap("*"), judge.group_total) == (3, 0, 0, 10)
    plain = policy()
    assert (plain.group("http://a.test/o/r"), plain.group_cap("page"), plain.group_total) == ("", 0, 0)


def test_only_a_host_that_is_named_has_a_delay_and_connections_of_its_own() -> None:
    judge = policy(polite_hosts=("In.test delay=0.1 connections=4", "b.test connections=2", "c.test delay=0"))
    assert judge.polite("in.test") == (0.1, 4)
    assert judge.polite("b.test") == (None, 2)
    assert judge.polite("c.test") == (0.0, 1)
    assert judge.polite("x.in.test") == (None, 1)


@pytest.mark.parametrize(
    "settings",
    [
        {"scope_deny": ("(?=a)",)},
        {"page_types": ("x",)},
        {"page_types": ("x=(",)},
        {"group": "abc"},
        {"group_pages": ("x=many",)},
        {"polite_hosts": ("a.test",)},
        {"scope_hosts": ("http://a.test",)},
    ],
)
def test_settings_of_another_release_that_cannot_be_used_are_an_error_and_no_crash(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        policy(**settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("scope.deny", "(?=a)", "RE2 patterns; '(?=a)': invalid perl operator '(?='"),
        ("scope.allow", "(", "RE2 patterns; '(': missing )"),
        ("scope.low_priority", "a[\n", "RE2 patterns; 'a[\\n': missing ]"),
        ("scope.page_types", "issue", "NAME=PATTERN"),
        ("scope.page_types", "issue=*", "no argument for repetition operator"),
        ("scope.follow_only", "*", "names of scope.page_types"),
        ("scope.group", "abc", "captures nothing"),
        ("scope.group", "(", "missing )"),
        ("scope.hosts", "https://a.test/", "host names such as"),
        ("scope.domains", "*.a.test", "host names such as"),
        ("scope.deny_hosts", "", "host names such as"),
        ("limits.group_pages", "issue=many", "TYPE=N"),
        ("limits.group_pages", "issue=-1", "TYPE=N"),
        ("politeness.hosts", "a.test", "HOST [delay=SECONDS]"),
        ("politeness.hosts", "a.test delay=x", "HOST [delay=SECONDS]"),
        ("politeness.hosts", "a.test delay=nan", "from 0 to 3600"),
        ("politeness.hosts", "a.test connections=0", "from 1 to 64"),
        ("politeness.hosts", "a.test speed=1", "HOST [delay=SECONDS]"),
        ("politeness.hosts", "a.test delay=1 delay=2", "HOST [delay=SECONDS]"),
        ("canonical.sites", "a.test keep", "SITE keep NAME"),
        ("canonical.sites", "a.test lose x", "SITE keep NAME"),
        ("canonical.sites", "http://a.test keep x", "SITE keep NAME"),
        ("canonical.sites", "a.test drop a*b", "SITE keep NAME"),
    ],
)
def test_a_bad_rule_is_one_line_that_names_the_setting_and_what_is_allowed(name: str, text: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        config.load(None, {}, [(name, text)])
    line = str(caught.value)
    assert line.startswith(f"{name}: ")
    assert words in line
    assert line.isprintable()


def test_types_that_no_pattern_names_are_found_when_settings_are_taken_together() -> None:
    def said(*given: tuple[str, str]) -> str | None:
        return together(config.load(None, {}, given))

    assert said(("scope.page_types", "issue=/i"), ("scope.follow_only", '["issue", "page"]')) is None
    assert "scope.follow_only: isue is no page type" in (said(("scope.follow_only", "isue")) or "")
    assert "limits.group_pages: pull" in (said(("limits.group_pages", "pull=1"), ("scope.group", "(a)")) or "")
    assert "scope.group" in (said(("limits.group_pages", "*=1")) or "")


def profile(name: str, *seeds: str) -> Policy:
    settings = config.load(PROFILES / name, {})
    assert together(settings) is None
    return Policy(crawl_settings_of(settings, CrawlSettings(), list(seeds)))


GH = "https://github.com"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (f"{GH}/o/r", "repo_root"),
        (f"{GH}/o/r/", "repo_root"),
        (f"{GH}/o/r/blob/main/src/a.py", "blob"),
        (f"{GH}/o/r/tree/main/src", "tree"),
        (f"{GH}/o/r/issues", "issues"),
        (f"{GH}/o/r/issues?page=2", "issues"),
        (f"{GH}/o/r/issues/12", "issue"),
        (f"{GH}/o/r/pulls", "pulls"),
        (f"{GH}/o/r/pulls?page=2", "pulls"),
        (f"{GH}/o/r/pull/3", "pull"),
        (f"{GH}/o/r/wiki/Home", "wiki"),
        (f"{GH}/o/r/releases/tag/v1", "release"),
        (f"{GH}/topics/crawler", "topic"),
        (f"{GH}/topics", "topic"),
        (f"{GH}/trending/python", "trending"),
        (f"{GH}/o", "user"),
        (f"{GH}/", "page"),
        (f"{GH}/o/r/commits/main", "denied_pattern"),
        (f"{GH}/o/r/commit/0a1b", "denied_pattern"),
        (f"{GH}/o/r/raw/main/a.py", "denied_pattern"),
        (f"{GH}/o/r/blame/main/a.py", "denied_pattern"),
        (f"{GH}/o/r/pull/3.diff", "denied_pattern"),
        (f"{GH}/o/r/pull/3/files", "denied_pattern"),
        (f"{GH}/o/r/issues/new/choose", "denied_pattern"),
        (f"{GH}/o/r/issues?q=is%3Aopen", "denied_pattern"),
        (f"{GH}/o/r/archive/refs/heads/main.zip", "denied_pattern"),
        (f"{GH}/login?return_to=%2Fo", "denied_pattern"),
        (f"{GH}/settings/profile", "denied_pattern"),
        (f"{GH}/search?q=x", "denied_pattern"),
        (f"{GH}/settings-of-a-user/r", "repo_root"),
        (f"{GH}/o/commits", "repo_root"),
        ("https://gist.github.com/o/1", "subdomain_denied"),
        ("https://api.github.com/repos/o/r", "subdomain_denied"),
        ("https://docs.github.com/en", "subdomain_denied"),
        ("https://www.github.com/", "host_not_allowed"),
        ("https://example.org/", "host_not_allowed"),
    ],
)
def test_the_github_profile(url: str, said: str) -> None:
    judge = profile("github.yaml")
    verdict = judge.judge(url)
    assert (judge.page_type(url) if verdict.allowed else verdict.reason) == said


def test_the_github_profile_holds_a_repository_to_its_caps_and_lists_are_only_followed() -> None:
    judge = profile("github.yaml")
    assert judge.group(f"{GH}/o/r/issues/12") == "o/r"
    assert (judge.group_cap("issue"), judge.group_cap("pull"), judge.group_total) == (100, 100, 500)
    assert [judge.stored(kind) for kind in ("repo_root", "blob", "issue", "pull", "issues", "topic", "trending")] == [
        *(True, True, True, True),
        *(False, False, False),
    ]
    assert judge.priority(f"{GH}/o/r/issues?page=2", 2) > judge.priority(f"{GH}/o/r/issues/1", 2)


def test_the_github_profile_tells_pages_of_a_list_apart_and_nothing_else_of_a_query() -> None:
    keys = Canonicaliser(config.load(PROFILES / "github.yaml", {}).canonical)
    assert keys.key(f"{GH}/o/r?x=1&tab=readme") == keys.key(f"{GH}/o/r")
    assert keys.key(f"{GH}/o/r/issues?page=2&x=1") != keys.key(f"{GH}/o/r/issues?page=3&x=1")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://www.example.org/", "home"),
        ("https://example.org/a", "page"),
        ("https://example.org/blog/page/2/", "listing"),
        ("https://example.org/a?page=2", "listing"),
        ("https://example.org/login", "denied_pattern"),
        ("https://example.org/loginov", "page"),
        ("https://example.org/wp-admin/x.php", "denied_pattern"),
        ("https://example.org/w/index.php?title=X&action=edit", "denied_pattern"),
        ("https://example.org/a.JPG", "denied_pattern"),
        ("https://example.org/a.js?v=1", "denied_pattern"),
        ("https://example.org/a.jsp", "page"),
        ("https://example.com/", "host_not_allowed"),
    ],
)
def test_the_general_profile(url: str, said: str) -> None:
    judge = profile("general.yaml", "https://example.org/")
    verdict = judge.judge(url)
    assert (judge.page_type(url) if verdict.allowed else verdict.reason) == said
