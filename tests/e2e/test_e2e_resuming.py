"""A crawl that is resumed, by commands that say more or less than the one that began it."""

import signal
from pathlib import Path

import pytest

from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import WebSpec
from tests.e2e.crawls import Crawler, check_exact, kill, pages_asked, until

RESUME = ("--allow-private", "127.0.0.0/8", "--contact", "tests@example.org", "--delay", "0")


@pytest.mark.parametrize("partitions", ["1", "4"])
def test_a_crawl_resumed_without_a_word_of_its_scope_goes_on_in_it(tmp_path: Path, partitions: str) -> None:
    with RunningWeb(WebSpec(hosts=6, pages=15)) as web:
        crawler = Crawler(tmp_path, HEADRACE_STREAMS__PARTITIONS=partitions)
        assert crawler.crawl(web.seeds()[:1], "--delay", "0", "--max-pages", "40") == 0, crawler.tail()
        assert len(pages_asked(web)) == 40
        done = crawler.run("crawl", *RESUME)
        assert done.returncode == 0, done.stderr
        assert "any host" in done.stdout
        check_exact(web, crawler.rows(), crawler.workspace, web.seeds()[:1])
        assert crawler.status()["refused"] == 0


def test_a_crawl_of_any_host_does_not_take_up_the_seed_of_another_crawl(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=4, pages=5)) as web, RunningWeb(WebSpec(hosts=6, pages=15, seed=2)) as other:
        crawler = Crawler(tmp_path)
        assert crawler.crawl(web.seeds()[:1], "--delay", "0") == 0, crawler.tail()
        alone = next(url for url in other.seeds(6) if "//127.10.0.6:" in url)  # no host of the first web
        done = crawler.run("crawl", alone, *RESUME)
        assert done.returncode == 0, done.stderr
        assert "any host" not in done.stdout
        assert {request.ip for request in other.requests()} == {"127.10.0.6"}


def test_a_crawl_of_any_host_that_is_not_complete_asks_what_to_do_with_another_seed(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=4, pages=30)) as web:
        crawler = Crawler(tmp_path)
        process = crawler.begin(web.seeds()[:1], "--delay", "0.3")
        until(lambda: len(pages_asked(web)) > 2, what=crawler.tail())
        kill(process)
        done = crawler.run("crawl", "http://127.66.0.1/", *RESUME)
        assert (done.returncode, done.stdout) == (2, "")
        assert "127.66.0.1 is no seed of the crawl in this workspace" in done.stderr


def test_a_scope_that_was_too_narrow_for_one_run_loses_nothing(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=6, pages=15)) as web:
        crawler = Crawler(tmp_path)
        assert crawler.crawl(web.seeds()[:1], "--delay", "0", "--max-pages", "40") == 0, crawler.tail()
        assert crawler.run("crawl", *RESUME, "--scope", "host").returncode == 0
        narrow = crawler.status()
        assert narrow["refused_by"]["host_not_allowed"] > 0
        assert crawler.run("crawl", *RESUME, "--scope", "all").returncode == 0
        wide = crawler.status()
        assert wide["fetched"] == wide["discovered"] >= narrow["discovered"]
        assert len(set(pages_asked(web))) == len(pages_asked(web)) == wide["fetched"]
        assert crawler.run("frontier", "check").returncode == 0


def test_a_seed_to_a_running_crawl_does_not_take_back_what_it_was_told_since_it_began(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=4, pages=30)) as web:
        crawler, config = Crawler(tmp_path), tmp_path / "c.yaml"
        config.write_text("limits:\n  max_pages: 100\npoliteness:\n  delay: 0.3\n")
        process = crawler.begin(web.seeds()[:1], "--config", str(config))
        try:
            until(lambda: len(pages_asked(web)) > 2, what=crawler.tail())
            assert crawler.run("pause").returncode == 0
            config.write_text("limits:\n  max_pages: 40\npoliteness:\n  delay: 0\n")
            process.send_signal(signal.SIGHUP)
            until(lambda: "configuration reloaded" in crawler.tail(), what=crawler.tail())
            assert crawler.run("seed", web.seeds(2)[1]).returncode == 0
            assert crawler.run("resume").returncode == 0
            assert process.wait(60) == 0, crawler.tail()
            assert len(pages_asked(web)) == 40
        finally:
            kill(process)
