"""One message of every type, every field away from its default: what the golden files hold.

Written with keywords only. A field appended later is at its default here, as it is for whoever reads an old message: so
a sample is never changed, and a new version of the format gets files and samples of its own beside these.
"""

from collections.abc import Mapping
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import replace

from headrace_schemas import messages as m

_KEY = bytes(range(16))
_URL = "https://example.org/a?b=c"
_HEADERS = (("content-type", "text/html; charset=utf-8"), ("etag", '"x"'))


def _result(outcome: m.Outcome) -> m.FetchResult:
    return m.FetchResult(
        fetch_id=7,
        url=_URL,
        key=_KEY,
        outcome=outcome,
        kind="sitemap",
        depth=2,
        hop=1,
        referrer="https://example.org/",
        page_type="sitemap",
        attempt=3,
        finished_at=1_700_000_000.5,
        waited=0.25,
        latency_ms=120,
        headers=_HEADERS,
        chain=("https://example.org/old",),
        run=4,
    )


_FIRST: Mapping[str, tuple[str, Struct]] = {
    "links": (
        "links.discovered",
        m.DiscoveredLinks(
            links=(
                m.Link(
                    url=_URL,
                    key=_KEY,
                    depth=2,
                    referrer="https://example.org/",
                    hop=1,
                    chain=("https://example.org/old",),
                    again=4,
                    etag='"x"',
                    last_modified="Tue, 14 Nov 2023 22:13:20 GMT",
                ),
                m.Link(url="https://example.org/ü", key=_KEY[::-1], depth=0),
            ),
            source="refresh",
            run=4,
        ),
    ),
    "task": (
        "urls.to_fetch",
        m.FetchTask(
            fetch_id=7,
            url=_URL,
            key=_KEY,
            host="example.org",
            delay=1.5,
            valid_until=1_700_086_400.0,
            kind="robots",
            depth=2,
            hop=1,
            referrer="https://example.org/",
            attempt=2,
            released_at=1_700_000_000.25,
            etag='"x"',
            last_modified="Tue, 14 Nov 2023 22:13:20 GMT",
            page_type="robots",
            chain=("https://example.org/old",),
            run=4,
        ),
    ),
    "page": (
        "pages.fetched",
        m.FetchedPage(
            fetch_id=7,
            url=_URL,
            key=_KEY,
            status=200,
            fetched_at=1_700_000_000.5,
            body=b"\x28\xb5\x2f\xfd\x00\xff",
            sha256="ab" * 32,
            size=1234,
            headers=_HEADERS,
            content_type="text/html",
            charset="utf-8",
            etag='"x"',
            last_modified="Tue, 14 Nov 2023 22:13:20 GMT",
            depth=2,
            referrer="https://example.org/",
            page_type="article",
            latency_ms=120,
            attempt=2,
            proxy_id="p1",
            protocol="HTTP/2",
            chain=("https://example.org/old",),
            run=4,
        ),
    ),
    "not_modified": (
        "pages.fetched",
        m.NotModified(
            fetch_id=8,
            url=_URL,
            key=_KEY,
            fetched_at=1_700_000_000.5,
            etag='"x"',
            last_modified="Tue, 14 Nov 2023 22:13:20 GMT",
            latency_ms=20,
            attempt=2,
            depth=2,
            referrer="https://example.org/",
            page_type="article",
            run=4,
        ),
    ),
    "result_fetched": ("fetch.results", _result(m.Fetched(status=200, size=1234, sha256="ab" * 32))),
    "result_redirected": (
        "fetch.results",
        _result(m.Redirected(status=301, to="https://example.org/new", key=_KEY[::-1])),
    ),
    "result_failed": (
        "fetch.results",
        _result(m.Failed(reason="http", status=503, retriable=True, retry_after=30.0, detail="busy", size=12)),
    ),
    "result_refused": ("fetch.results", _result(m.Refused(reason="address", detail="10.0.0.1 is private"))),
    "result_deferred": ("fetch.results", _result(m.Deferred(not_before=1_700_000_060.0, reason="wait"))),
    "result_robots": ("fetch.results", _result(m.Robots(status=200, text=b"User-agent: *\nDisallow: /\xff"))),
    "parsed": (
        "pages.parsed",
        m.ParsedPage(
            fetch_id=7,
            url=_URL,
            key=_KEY,
            verdict="ok",
            title="Title",
            description="What it is",
            text="All of the text \u2603",
            lang="en",
            encoding="windows-1252",
            text_sha256="cd" * 32,
            outlinks=("https://example.org/", "https://example.com/x"),
            canonical_url="https://example.org/a",
            nofollow=True,
            noindex=True,
            parsed_at=1_700_000_001.5,
            items=(b'{"a":1}', b"{}"),
        ),
    ),
    "budget_request": ("frontier.budget", m.BudgetRequest(partition=3, number=5)),
    "budget_grant": ("frontier.budget", m.BudgetGrant(partition=3, number=5, credits=10)),
    "budget_return": ("frontier.budget", m.BudgetReturn(partition=3, credits=2)),
    "progress": (
        "crawl.progress",
        m.Progress(
            partition=3,
            queued=1,
            in_flight=2,
            fetched=3,
            redirected=4,
            failed=5,
            refused=6,
            tasks_in_flight=7,
            tasks_queued=8,
            behind_budget=1,
            budget_held=9,
            rejected={"scope": 11},
            refused_by={"robots": 6},
            failed_by={"http": 5},
            owner="10.1.2.3:9100",
            revision=12,
            bytes=1 << 40,
            next_due=1_700_000_060.0,
            busiest=(("example.org", 1),),
        ),
    ),
    "control": (
        "crawl.control",
        m.Control(
            revision=12,
            settings=m.CrawlSettings(
                scope_mode="host",
                scope_roots=("example.org",),
                max_pages=1000,
                max_depth=3,
                delay=2.5,
                agent="mybot",
                max_backlog=500,
            ),
            mode="stopping",
            run=4,
            completed_run=3,
            seeded_run=4,
        ),
    ),
    "layout": (
        "crawl.control",
        m.Layout(
            partitions=64, politeness_key="domain", canonicaliser="1:00ff00ff00ff00ff", suffix_list="20260101", format=1
        ),
    ),
    "dead": (
        "dead.letters",
        m.DeadLetter(
            topic="urls.to_fetch",
            partition=3,
            offset=1 << 33,
            key=b"7",
            value=b"\x00\xffgarbage",
            group="fetcher",
            reason="not a headrace message",
            at=1_700_000_000.5,
        ),
    ),
}


def _grown(name: str, **fields: Any) -> tuple[str, Struct]:
    """The sample with the fields that were appended to its type since."""
    topic, message = _FIRST[name]
    return topic, replace(message, **fields)


_SECOND: Mapping[str, tuple[str, Struct]] = {
    "links_2": _grown("links", rejected={"scheme": 3, "userinfo": 1}),
    "task_2": _grown("task", connections=4, max_bytes=5000, store=False),
    "page_2": _grown("page", store=False),
    "result_2": _grown(
        "result_fetched",
        host="example.org",
        asked_at=1_700_000_000.25,
        delay=1.5,
        hops=(("old.example.org", 1_699_999_999.5),),
        received=400,
        protocol="HTTP/2",
        proxy_id="p1",
        phases=m.Phases(connect=10, first_byte=20, body=30),
    ),
    "parsed_2": _grown("parsed", packed_text=b"(\xb5/\xfd \x0fy\x00\x00All of the text"),
    "progress_2": _grown("progress", next_host="example.org", next_why="breaker"),
    "progress_3": _grown("progress", next_host="example.org", next_why="robots", needing=9, pool_spent=True),
    "control_2": (
        "crawl.control",
        m.Control(
            revision=12,
            settings=m.CrawlSettings(
                scope_hosts=("a.example.org",),
                scope_domains=("example.net",),
                scope_deny_hosts=("b.example.org",),
                scope_allow=("/docs/",),
                scope_deny=("[?]print=",),
                page_types=("doc=/docs/",),
                follow_only=("page",),
                group="^https://[^/]+/([^/]+)/",
                low_priority=("/page/[0-9]+",),
                host_pages=100,
                host_bytes=1 << 30,
                group_pages=("doc=10", "*=20"),
                polite_hosts=("a.example.org delay=0.1 connections=4",),
                max_body=1000,
            ),
            mode="paused",
            run=4,
            completed_run=3,
            seeded_run=4,
        ),
    ),
    "control_3": _grown("control", settings=m.CrawlSettings(seed_hosts=("www.example.org", "a.example.org"))),
}

WORDS: Mapping[str, tuple[str, Struct]] = {
    f"{name}_{field}_{word}": _grown(name, **{field: word})
    for name, field, words in (
        ("links", "source", m.LinkSource),
        ("task", "kind", m.TaskKind),
        ("result_fetched", "kind", m.TaskKind),
        ("control", "mode", m.Mode),
    )
    for word in get_args(words)
}
"""A word that is added wants a file; one that is taken away leaves a file without a sample."""

SAMPLES: Mapping[str, tuple[str, Struct]] = {**_FIRST, **_SECOND, **WORDS}
