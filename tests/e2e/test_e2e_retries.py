"""What a site that fails, or asks for a rest, sees of a whole crawl: by its own log."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.e2e.crawls import Crawler
from tests.e2e.odd_web import gaps, linking, odd_web
from tests.fetcher.hostile import Reply, Seen, answer, html, reset

A, B = "127.6.2.1", "127.6.2.2"
BUSY = answer("503 Service Unavailable", b"busy", ("Content-Type: text/html", "Retry-After: 3"))


def at_first(replies: list[Reply], then: Reply) -> Reply:
    """Those, a request each, and then the other for ever."""

    async def reply(writer: asyncio.StreamWriter, seen: Seen) -> bool | None:
        return await (replies.pop(0) if replies else then)(writer, seen)

    return reply


def reasons(crawler: Crawler) -> dict[str, str]:
    return {row["url"]: json.loads(row["metadata"] or "{}").get("reason", "") for row in crawler.rows()}


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
def test_a_host_that_asks_for_three_seconds_gets_them_and_the_others_do_not_wait(tmp_path: Path, status: str) -> None:
    with odd_web() as web:
        others = [f"/{number}" for number in range(12)]
        web.serve("/", linking("/busy", *others, web.url(B, "/alone")))
        web.serve("/busy", at_first([answer(status, b"", ("Retry-After: 3",))], html()))
        web.serve("/alone", linking(*(web.url(B, path) for path in others)))
        for path in others:
            web.serve(path, html())
        crawler = Crawler(tmp_path)
        assert crawler.crawl([web.url(A)], "--delay", "0.1") == 0, crawler.tail()
        asked = web.requests(A)
        first = next(at for at, seen in enumerate(asked) if seen.target == "/busy")
        rest = asked[first + 1].at - asked[first].at
        assert 3.0 <= rest < 10.0
        assert max(gaps(web.requests(B))) < 2.9
        assert {row["http_status"] for row in crawler.rows()} == {"200"}
        assert [row["retries"] for row in crawler.rows() if row["url"].endswith("/busy")] == ["1"]


def test_a_spent_limit_ends_a_crawl_of_several_partitions_though_hosts_rest(tmp_path: Path) -> None:
    with odd_web() as web:
        hosts = [f"127.6.3.{number}" for number in range(1, 7)]
        web.serve("/", linking(*(web.url(host, f"/busy{n}") for host in hosts for n in (1, 2)), "/1", "/2", "/3"))
        for number in (1, 2):
            web.serve(f"/busy{number}", answer("429 Too Many Requests", b"", ("Retry-After: 3000",)))
        for path in ("/1", "/2", "/3"):
            web.serve(path, html())
        crawler = Crawler(tmp_path, HEADRACE_STREAMS__PARTITIONS="4")
        assert crawler.crawl([web.url(A)], "--delay", "0.3", "--max-pages", "4") == 0, crawler.tail()
        status = crawler.status()
        assert (status["complete"], status["fetched"]) == (True, 4)
        assert status["behind_budget"] == status["queued"] > 0


def test_a_page_that_fails_is_asked_for_three_times_with_growing_waits(tmp_path: Path) -> None:
    with odd_web() as web:
        web.serve("/", linking("/broken", "/lost"))
        web.serve("/broken", answer("500 Internal Server Error", b"oops"))
        web.serve("/lost", answer("404 Not Found", b"no"))
        crawler = Crawler(tmp_path)
        assert crawler.crawl([web.url(A)], "--delay", "0.05", "--set", "retry.base=1") == 0, crawler.tail()
        tries = [seen for seen in web.requests(A) if seen.target == "/broken"]
        first, second = gaps(tries)
        assert len(tries) == 3
        assert first >= 0.5
        assert second >= 1.0
        assert web.pages(A).count("/lost") == 1
        assert reasons(crawler) == {web.url(A): "", web.url(A, "/broken"): "http", web.url(A, "/lost"): "http"}


def test_a_host_that_hangs_up_on_everything_is_left_alone_and_then_given_up(tmp_path: Path) -> None:
    with odd_web() as web:
        pages = [f"/{number}" for number in range(40)]
        web.serve("/", linking(*(web.url(B, page) for page in pages)))
        for page in pages:
            web.serve(page, reset)
        crawler = Crawler(tmp_path)
        slow = ("--set", "breaker.cooldown=2", "--set", "retry.base=0.05", "--set", "retry.attempts=1")
        assert crawler.crawl([web.url(A)], "--delay", "0.05", *slow) == 0, crawler.tail()
        asked = web.requests(B)
        assert len(set(web.pages(B))) == 5 + 1, "five failures in a row, a rest, and one trial"
        assert len(web.pages(B)) == 5 + 1 + 1, "the first met a kept connection: it was asked once more"
        assert min(gaps(asked)) >= 0.045
        assert 2.0 <= gaps(asked)[-1] < 10.0
        ended = [reason for url, reason in reasons(crawler).items() if url != web.url(A)]
        assert sorted(set(ended)) == ["host_dead", "protocol"]
        assert (len(ended), ended.count("host_dead")) == (40, 34)


def test_a_host_that_recovers_while_it_is_left_alone_loses_no_page(tmp_path: Path) -> None:
    with odd_web() as web:
        pages = [f"/{number}" for number in range(12)]
        web.serve("/", linking(*(web.url(B, page) for page in pages)))
        down = [BUSY] * 5

        async def moody(writer: asyncio.StreamWriter, seen: Seen) -> bool | None:
            return await (down.pop() if down else html())(writer, seen)

        for page in pages:
            web.serve(page, moody)
        crawler = Crawler(tmp_path)
        quick = ("--set", "breaker.cooldown=1", "--set", "retry.base=0.05", "--set", "retry.max_retry_after=1")
        assert crawler.crawl([web.url(A)], "--delay", "0.05", *quick) == 0, crawler.tail()
        assert {row["http_status"] for row in crawler.rows()} == {"200"}
        assert len(crawler.rows()) == 13


def test_a_robots_txt_that_cannot_be_had_closes_its_host_after_three_tries(tmp_path: Path) -> None:
    with odd_web() as web:
        web.serve("/", linking(web.url(B, "/1"), web.url(B, "/2")))

        async def robots(writer: asyncio.StreamWriter, seen: Seen) -> bool | None:
            status = "500 Internal Server Error" if seen.host == B else "404 Not Found"
            return await answer(status, b"")(writer, seen)

        web.serve("/robots.txt", robots)
        crawler = Crawler(tmp_path)
        assert crawler.crawl([web.url(A)], "--delay", "0.05", "--set", "robots.retry=0.5") == 0, crawler.tail()
        assert [seen.target for seen in web.requests(B)] == ["/robots.txt"] * 3
        first, second = gaps(web.requests(B))
        assert first >= 0.5
        assert second >= 1.0
        assert reasons(crawler)[web.url(B, "/1")] == "robots_unavailable"


def test_the_last_of_too_many_redirects_has_failed_in_the_index_too(tmp_path: Path) -> None:
    with odd_web() as web:
        for number in range(9):
            web.serve(f"/{number}", answer("302 Found", b"", (f"Location: /{number + 1}",)))
        crawler = Crawler(tmp_path)
        assert crawler.crawl([web.url(A, "/0")], "--delay", "0") == 0, crawler.tail()
        assert web.pages(A) == [f"/{number}" for number in range(6)]
        ended = {web.url(A, f"/{number}"): "" for number in range(5)} | {web.url(A, "/5"): "too_many_redirects"}
        assert reasons(crawler) == ended
        (last,) = (row for row in crawler.rows() if row["url"] == web.url(A, "/5"))
        assert (last["http_status"], last["retries"]) == ("302", "0")


def test_a_redirect_into_a_closed_range_is_refused_at_its_target(tmp_path: Path) -> None:
    with odd_web() as web:
        web.serve("/", linking("/away"))
        web.serve("/away", answer("302 Found", b"", ("Location: http://10.1.2.3/secret",)))
        crawler = Crawler(tmp_path)
        assert crawler.crawl([web.url(A)], "--delay", "0") == 0, crawler.tail()
        status = crawler.status()
    assert (status["redirected"], status["refused"], status["refused_by"]) == (1, 1, {"address": 1})
