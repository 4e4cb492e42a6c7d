"""Caps by host and by group are met exactly, whatever is under way: the web's own log counts."""

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import Errors, WebSpec
from tests.e2e.crawls import Crawler

SPEC = WebSpec(hosts=6, pages=40, size=2_000, spread=0, cross=2)
PARTITIONS = pytest.mark.parametrize("partitions", ["1", "4"])


def fetched(crawler: Crawler) -> Counter[str]:
    """Pages by host."""
    return Counter(row["url"].split("/")[2].split(":")[0] for row in crawler.rows() if row["http_status"] == "200")


def asked(web: RunningWeb) -> Counter[str]:
    return Counter(request.ip for request in web.requests() if request.path != "/robots.txt")


@PARTITIONS
def test_every_host_gives_as_many_pages_as_its_cap_and_no_request_more(tmp_path: Path, partitions: str) -> None:
    with RunningWeb(SPEC) as web:
        crawler = Crawler(tmp_path, HEADRACE_STREAMS__PARTITIONS=partitions)
        few = ("--delay", "0", "--set", "limits.host_pages=7")
        assert crawler.crawl([web.url(host) for host in range(6)], *few) == 0, crawler.tail()
        assert fetched(crawler) == asked(web) == Counter({web.spec.address(host): 7 for host in range(6)})
        status = crawler.status()
        assert status["complete"]
        assert set(status["refused_by"]) == {"cap"}
        assert crawler.run("frontier", "check").returncode == 0, "the counters agree with what was refused"


def test_a_cap_counts_pages_and_not_errors_and_raising_it_goes_on(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=3, pages=40, size=2_000, errors=Errors(missing=0.2))) as web:
        crawler = Crawler(tmp_path)
        seeds = [web.url(host) for host in range(3)]
        assert crawler.crawl(seeds, "--delay", "0", "--set", "limits.host_pages=9") == 0, crawler.tail()
        assert set(fetched(crawler).values()) == {9}
        before = len(web.requests())
        assert crawler.crawl(seeds, "--delay", "0", "--set", "limits.host_pages=12", "--refresh") == 0, crawler.tail()
        assert set(fetched(crawler).values()) == {12}
        again = Counter((request.ip, request.path) for request in web.requests()[before:])
        assert max(again.values()) == 1


@PARTITIONS
def test_a_group_has_its_own_cap_by_type_with_several_requests_at_once(tmp_path: Path, partitions: str) -> None:
    """Groups are the pages of a host whose numbers end alike; many requests under way must not overshoot them."""
    with RunningWeb(WebSpec(hosts=2, pages=60, size=2_000, cross=1, latency_ms=20)) as web:
        first = web.spec.address(0)
        rules = (
            *("--set", r'scope.page_types=["leaf=/p/[0-9]+$"]', "--set", r"scope.group=/p/[0-9]*([0-9])$"),
            *("--set", 'limits.group_pages=["leaf=3"]', "--set", f'politeness.hosts=["{first} connections=8"]'),
        )
        crawler = Crawler(tmp_path, HEADRACE_STREAMS__PARTITIONS=partitions)
        assert crawler.crawl([web.url(0), web.url(1)], "--delay", "0", *rules) == 0, crawler.tail()
        groups = Counter(
            (row["url"].split("/")[2], row["url"][-1]) for row in crawler.rows() if row["page_type"] == "leaf"
        )
        assert len(groups) > 10
        assert max(groups.values()) <= 3
        assert Counter(groups.values())[3] > 10, "and each that has so many pages is filled"


def test_the_bytes_of_a_host_are_never_passed(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=4, pages=40, size=10_000, spread=0.5)) as web:
        crawler = Crawler(tmp_path)
        assert crawler.crawl([web.url(0)], "--delay", "0", "--set", "limits.host_bytes=60000") == 0, crawler.tail()
        got: Counter[str] = Counter()
        for row in crawler.rows():
            if row["http_status"] == "200":
                got[row["url"].split("/")[2]] += int(row["content_bytes"])
        assert len(got) == 4
        assert max(got.values()) <= 60_000
        assert min(got.values()) > 30_000, "and they are used"
