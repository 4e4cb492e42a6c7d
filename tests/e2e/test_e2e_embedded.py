"""Whole crawls on the embedded log, by the command a user types."""

import json
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import Errors, Redirects, RobotsKinds, WebSpec
from tests.e2e.crawls import Crawler, check_exact, kill, pages_asked, until

EVERYTHING = WebSpec(
    hosts=12,
    pages=30,
    size=3_000,
    errors=Errors(missing=0.05, flaky=0.05, broken=0.03),
    redirects=Redirects(inside=0.05, across=0.05, chain=0.05, slash=0.05, order=0.05),
    robots=RobotsKinds(disallow=0.2, missing=0.2, down=0.1),
    twins=0.1,
    files=0.1,
    gzip=True,
    validators=True,
)
QUICK = ("--set", "retry.base=0.05", "--set", "robots.retry=0.05")


def test_a_plain_web_is_crawled_exactly_and_a_second_run_asks_for_nothing(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=20, pages=30)) as web:
        crawler = Crawler(tmp_path)
        assert crawler.crawl(web.seeds(), "--delay", "0.02") == 0, crawler.tail()
        rows = crawler.rows()
        check_exact(web, rows, crawler.workspace)
        asked = web.requests()
        first: dict[str, str] = {}
        for request in asked:
            first.setdefault(request.ip, request.path)
        assert set(first.values()) == {"/robots.txt"}
        assert len({(request.ip, request.path) for request in asked}) == len(asked)
        assert all("tests@example.org" in (request.ua or "") for request in asked)
        assert crawler.status()["complete"] is True
        assert crawler.crawl(web.seeds(), "--delay", "0.02") == 0, crawler.tail()
        assert len(web.requests()) == len(asked)
        assert crawler.rows() == rows


def test_a_web_with_errors_redirects_and_robots_is_crawled_exactly(tmp_path: Path) -> None:
    with RunningWeb(EVERYTHING) as web:
        crawler = Crawler(tmp_path)
        assert crawler.crawl(web.seeds(), "--delay", "0", *QUICK) == 0, crawler.tail()
        walk = web.walk()
        rows = [row for row in crawler.rows() if row["url"] not in walk.refused]
        check_exact(web, rows, crawler.workspace)
        assert not set(pages_asked(web)) & set(walk.refused)
        status = crawler.status()
        states = ("queued", "in_flight", "fetched", "redirected", "failed", "refused")
        assert status["discovered"] == sum(status[name] for name in states)
        assert status["queued"] == status["in_flight"] == 0


def test_max_pages_is_met_exactly_and_raising_it_goes_on(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=20, pages=30)) as web:
        crawler = Crawler(tmp_path)
        assert crawler.crawl(web.seeds(), "--delay", "0", "--max-pages", "137") == 0, crawler.tail()
        assert sorted(row["url"] for row in crawler.rows()) == sorted(pages_asked(web))
        assert len(pages_asked(web)) == 137
        assert crawler.crawl(web.seeds(), "--delay", "0", "--max-pages", "137") == 0, crawler.tail()
        assert len(pages_asked(web)) == 137
        assert crawler.crawl(web.seeds(), "--delay", "0", "--max-pages", "200") == 0, crawler.tail()
        assert len(set(pages_asked(web))) == len(pages_asked(web)) == 200


def test_max_pages_counts_pages_and_not_errors_or_redirects(tmp_path: Path) -> None:
    with RunningWeb(EVERYTHING) as web:
        crawler = Crawler(tmp_path)
        options = ("--delay", "0", "--max-pages", "101", *QUICK)
        assert crawler.crawl(web.seeds(), *options) == 0, crawler.tail()
        assert crawler.status()["fetched"] == 101
        assert sum(row["http_status"] == "200" and bool(row["stored_path"]) for row in crawler.rows()) == 101


@pytest.mark.slow
def test_killed_twelve_times_at_random_it_ends_with_the_pages_of_an_undisturbed_crawl(tmp_path: Path) -> None:
    dice = random.Random(12)
    with RunningWeb(WebSpec(hosts=40, pages=40)) as web:
        crawler = Crawler(tmp_path)
        kills = 0
        while kills < 12:
            process = crawler.begin(web.seeds(), "--delay", "0.05")
            before = web.log.stat().st_size
            until(lambda p=process, n=before: p.poll() is not None or web.log.stat().st_size > n)  # type: ignore[misc]
            time.sleep(dice.uniform(0, 0.3))
            if process.poll() is not None:
                break
            kill(process)
            kills += 1
        assert kills >= 8, crawler.tail()
        assert crawler.crawl(web.seeds(), "--delay", "0.05") == 0, crawler.tail()
        check_exact(web, crawler.rows(), crawler.workspace)
        assert crawler.run("status").returncode == 0


def test_no_host_is_asked_sooner_than_its_delay(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=30, pages=8, robots=RobotsKinds(delay=0.2), crawl_delay=0.8)) as web:
        crawler = Crawler(tmp_path)
        assert crawler.crawl(web.seeds(30), "--delay", "0.5") == 0, crawler.tail()
        check_exact(web, crawler.rows(), crawler.workspace, web.seeds(30))
        assert not web.under(0.5)


def test_pause_resume_and_stop_work_from_another_terminal(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=10, pages=40)) as web:
        crawler = Crawler(tmp_path)
        process = crawler.begin(web.seeds(), "--delay", "0.2")
        until(lambda: len(web.requests()) > 20, what=crawler.tail())
        assert crawler.run("pause").returncode == 0
        time.sleep(1.0)
        asked = len(web.requests())
        time.sleep(1.0)
        assert len(web.requests()) == asked
        assert crawler.status()["mode"] == "paused"
        assert crawler.run("resume").returncode == 0
        until(lambda: len(web.requests()) > asked + 5)
        assert crawler.run("stop").returncode == 0
        assert process.wait(30) == 0, crawler.tail()
        asked = len(web.requests())
        status = crawler.status()
        assert not status["complete"]
        assert len(crawler.rows()) == status["fetched"]
        assert crawler.crawl(web.seeds(), "--delay", "0") == 0, crawler.tail()
        check_exact(web, crawler.rows(), crawler.workspace)


def test_the_files_pause_and_stop_do_the_same(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=10, pages=40)) as web:
        crawler = Crawler(tmp_path)
        process = crawler.begin(web.seeds(), "--delay", "0.2")
        until(lambda: len(web.requests()) > 20, what=crawler.tail())
        (crawler.workspace / "pause").touch()
        until(lambda: crawler.status()["mode"] == "paused")
        (crawler.workspace / "pause").unlink()
        until(lambda: crawler.status()["mode"] == "running")
        (crawler.workspace / "stop").touch()
        assert process.wait(30) == 0, crawler.tail()


def test_ctrl_c_keeps_everything_and_says_how_to_go_on(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=10, pages=40)) as web:
        crawler = Crawler(tmp_path)
        process = crawler.begin(web.seeds(), "--delay", "0.1")
        until(lambda: len(web.requests()) > 30, what=crawler.tail())
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130, crawler.tail()
        assert "Traceback" not in crawler.tail()
        assert "the same command again" in crawler.tail()
        assert crawler.crawl(web.seeds(), "--delay", "0") == 0, crawler.tail()
        check_exact(web, crawler.rows(), crawler.workspace)


def test_a_second_crawl_on_a_busy_workspace_is_refused_in_one_line(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=5, pages=40)) as web:
        crawler = Crawler(tmp_path)
        process = crawler.begin(web.seeds(), "--delay", "0.2")
        try:
            until(lambda: len(web.requests()) > 5, what=crawler.tail())
            done = crawler.run("crawl", *web.seeds(), "--contact", "me@example.org")
            assert done.returncode == 1
            assert str(crawler.workspace) in done.stderr
            assert "Traceback" not in done.stderr
        finally:
            kill(process)


def test_refresh_asks_once_more_with_validators_and_keeps_the_bodies(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=5, pages=12, validators=True)) as web:
        crawler = Crawler(tmp_path)
        assert crawler.crawl(web.seeds(), "--delay", "0") == 0, crawler.tail()
        before, asked = crawler.rows(), len(web.requests())
        assert crawler.crawl(web.seeds(), "--delay", "0", "--refresh") == 0, crawler.tail()
        again = [request for request in web.requests()[asked:] if request.path != "/robots.txt"]
        assert len(again) == len(before)
        assert all(request.status == 304 and request.inm for request in again)
        after = crawler.rows()
        assert {row["http_status"] for row in after} == {"304"}
        same = ("url", "content_sha256", "content_bytes", "stored_path")
        assert sorted([row[name] for name in same] for row in after) == sorted(
            [row[name] for name in same] for row in before
        )


def test_refresh_brings_back_bodies_that_are_lost(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=3, pages=10, validators=True)) as web:
        crawler = Crawler(tmp_path)
        assert crawler.crawl(web.seeds(), "--delay", "0") == 0, crawler.tail()
        asked = len(web.requests())
        rows = crawler.rows()
        (crawler.workspace / rows[0]["stored_path"]).unlink()
        assert crawler.crawl(web.seeds(), "--delay", "0", "--refresh") == 0, crawler.tail()
        again = [request for request in web.requests()[asked:] if request.path != "/robots.txt"]
        assert sorted(request.status for request in again) == [200] + [304] * (len(rows) - 1)
        shutil.rmtree(crawler.workspace / "store")
        assert crawler.crawl(web.seeds(), "--delay", "0", "--refresh") == 0, crawler.tail()
        check_exact(web, crawler.rows(), crawler.workspace)


def test_failed_urls_stay_failed_until_a_retry_is_asked_for(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=4, pages=20, errors=Errors(missing=0.2))) as web:
        crawler = Crawler(tmp_path)
        assert crawler.crawl(web.seeds(), "--delay", "0") == 0, crawler.tail()
        failed = crawler.status()["failed"]
        assert failed > 0
        asked = len(web.requests())
        assert crawler.crawl(web.seeds(), "--delay", "0") == 0, crawler.tail()
        assert len(web.requests()) == asked
        assert crawler.crawl(web.seeds(), "--delay", "0", "--retry-failed") == 0, crawler.tail()
        assert len([r for r in web.requests()[asked:] if r.path != "/robots.txt"]) == failed


def test_replay_parses_again_without_asking_the_web_and_changes_nothing_the_second_time(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=4, pages=20)) as web:
        crawler = Crawler(tmp_path)
        assert crawler.crawl(web.seeds(), "--delay", "0") == 0, crawler.tail()
        asked, rows = len(web.requests()), crawler.rows()
        for options in (["--dry-run"], [], ["--host", "127.10.0.1"]):
            done = crawler.run("replay", *options)
            assert done.returncode == 0, done.stderr
            assert " 0 " in done.stdout or "0 changed" in done.stdout
        assert crawler.rows() == rows
        assert len(web.requests()) == asked


def test_what_the_log_still_keeps_brings_back_index_and_store(tmp_path: Path) -> None:
    crawler = Crawler(tmp_path, HEADRACE_STREAMS__KEEP="3600")
    with RunningWeb(WebSpec(hosts=3, pages=10, errors=Errors(missing=0.2))) as web:
        assert crawler.crawl(web.seeds(), "--delay", "0") == 0, crawler.tail()
        shutil.rmtree(crawler.workspace / "store")
        for file in crawler.workspace.glob("index.sqlite*"):
            file.unlink()
        done = crawler.run("replay", "--topic", "pages.fetched")
        assert done.returncode == 0, done.stderr
        check_exact(web, crawler.rows(), crawler.workspace)


def test_show_and_exports_give_what_the_web_served(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=2, pages=10)) as web:
        crawler = Crawler(tmp_path)
        assert crawler.crawl(web.seeds(), "--delay", "0") == 0, crawler.tail()
        lines = crawler.run("pages", "--format", "jsonl").stdout.splitlines()
        assert len(lines) == 20
        assert all(json.loads(line)["metadata"]["title"] for line in lines)
        assert crawler.run("pages", "--format", "csv", "--output", "out.csv").returncode == 0
        assert (tmp_path / "out.csv").read_text().count("\n") == 21
        assert "127.10.0.1" in crawler.run("pages").stdout
        url = web.url(0)
        assert url in crawler.run("show", url).stdout
        assert "<html" in crawler.run("show", url, "--html").stdout
        assert "<html" not in crawler.run("show", url, "--text").stdout
        assert crawler.run("show", url, "--markdown").returncode == 0
        missing = crawler.run("show", "http://127.99.0.1/")
        assert missing.returncode == 2


def test_reset_empties_the_workspace_and_the_next_crawl_starts_anew(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=2, pages=5)) as web:
        crawler = Crawler(tmp_path)
        assert crawler.crawl(web.seeds(), "--delay", "0") == 0, crawler.tail()
        assert crawler.run("reset").returncode == 2
        assert crawler.run("reset", "--yes").returncode == 0
        assert crawler.run("pages").returncode == 2
        assert crawler.crawl(web.seeds(), "--delay", "0") == 0, crawler.tail()
        check_exact(web, crawler.rows(), crawler.workspace)


def test_private_addresses_are_refused_unless_opened(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=2, pages=5)) as web:
        crawler = Crawler(tmp_path)
        done = crawler.run("crawl", *web.seeds(), "--contact", "me@example.org")
        assert done.returncode == 0, done.stderr
        assert "--allow-private" in done.stdout
        assert not web.requests()
        assert crawler.status()["fetched"] == 0
