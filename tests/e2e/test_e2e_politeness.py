"""Whole crawls, and what the web they crawl says of their manners: only its own log is asked."""

import os
import signal
import time
from collections import defaultdict
from pathlib import Path

from benchmarks.web.log import Request
from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import Redirects, RobotsKinds, WebSpec
from tests.e2e.crawls import Crawler, check_exact, kill, until

DELAY = 0.5
MIXED = WebSpec(hosts=20, pages=12, robots=RobotsKinds(delay=0.3), crawl_delay=1.0, redirects=Redirects(across=0.1))


def utilisation(web: RunningWeb) -> float:
    """Requests made of those the delays allowed between a host's first and last one; 1 is a host never kept waiting."""
    arrivals: dict[str, list[float]] = defaultdict(list)
    for request in web.requests():
        arrivals[request.ip].append(request.t)
    owed = sum((len(of) - 1) * max(DELAY, web.site.crawl_delay(ip)) for ip, of in arrivals.items())
    return owed / sum(of[-1] - of[0] for of in arrivals.values())


def test_no_gap_is_short_where_some_hosts_ask_for_more_and_none_after_a_restart_in_the_middle(tmp_path: Path) -> None:
    with RunningWeb(MIXED) as web:
        crawler = Crawler(tmp_path)
        seeds = web.seeds(20)
        for requests in (60, 120):
            process = crawler.begin(seeds, "--delay", str(DELAY))
            until(lambda n=requests: len(web.requests()) > n, what=crawler.tail())  # type: ignore[misc]
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 130, crawler.tail()
            assert not web.under(DELAY)
        assert crawler.crawl(seeds, "--delay", str(DELAY)) == 0, crawler.tail()
        check_exact(web, crawler.rows(), crawler.workspace, seeds)
        assert not web.under(DELAY)
        print(f"utilisation {utilisation(web):.2f}, two restarts included")


def test_no_gap_is_short_in_an_undisturbed_crawl_of_many_hosts(tmp_path: Path) -> None:
    with RunningWeb(MIXED) as web:
        crawler = Crawler(tmp_path)
        assert crawler.crawl(web.seeds(20), "--delay", str(DELAY)) == 0, crawler.tail()
        assert not web.under(DELAY)
        print(f"utilisation {utilisation(web):.2f}, smallest gap {web.gaps()[0].seconds:.3f} s")


def test_no_gap_is_short_after_a_kill_in_the_middle(tmp_path: Path) -> None:
    with RunningWeb(MIXED) as web:
        crawler = Crawler(tmp_path)
        for requests in (40, 80):
            process = crawler.begin(web.seeds(20), "--delay", str(DELAY))
            until(lambda n=requests: len(web.requests()) > n, what=crawler.tail())  # type: ignore[misc]
            kill(process)
        assert crawler.crawl(web.seeds(20), "--delay", str(DELAY)) == 0, crawler.tail()
        assert not web.under(DELAY)


def test_a_crawl_that_was_frozen_for_seconds_wakes_up_as_polite_as_it_was(tmp_path: Path) -> None:
    """The turns of all hosts have come meanwhile, and answers have waited in the sockets."""
    with RunningWeb(WebSpec(hosts=20, pages=20, latency_ms=40)) as web:
        crawler = Crawler(tmp_path)
        process = crawler.begin(web.seeds(20), "--delay", str(DELAY))
        try:
            until(lambda: len(web.requests()) > 60, what=crawler.tail())
            os.killpg(process.pid, signal.SIGSTOP)
            time.sleep(0.3)  # what was on its way when it froze
            asked = len(web.requests())
            time.sleep(5.0)
            assert len(web.requests()) == asked
            os.killpg(process.pid, signal.SIGCONT)
            until(lambda: len(web.requests()) > asked + 100, what=crawler.tail())
            assert not web.under(DELAY)
        finally:
            kill(process)


def most_at_once(requests: list[Request], seconds: float) -> int:
    """Requests under way together, each answered `seconds` after its arrival and no sooner."""
    times = sorted(request.t for request in requests)
    most = first = 0
    for number, at in enumerate(times, 1):
        while times[first] + seconds <= at:
            first += 1
        most = max(most, number - first)
    return most


def test_no_more_requests_are_under_way_than_the_limit_says(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=20, pages=4, latency_ms=150)) as web:
        crawler = Crawler(tmp_path)
        options = ("--delay", "0", "--set", "limits.concurrency=5")
        assert crawler.crawl(web.seeds(20), *options) == 0, crawler.tail()
        assert most_at_once(web.requests(), 0.15) == 5
        for host in {request.ip for request in web.requests()}:
            assert most_at_once([request for request in web.requests() if request.ip == host], 0.15) == 1


def test_requests_come_no_faster_than_the_rate_says(tmp_path: Path) -> None:
    rate = 40
    with RunningWeb(WebSpec(hosts=20, pages=8)) as web:
        crawler = Crawler(tmp_path)
        options = ("--delay", "0", "--set", f"limits.rate={rate}")
        assert crawler.crawl(web.seeds(20), *options) == 0, crawler.tail()
        times = sorted(request.t for request in web.requests())
        assert len(times) == 20 * 9
        saved_up = rate // 10
        for early, late in zip(times, times[rate:], strict=False):  # so many in a second, but for what was saved up
            assert late - early >= (rate - saved_up) / rate * 0.9
