"""A crawl that is resumed, by commands that say more or less than the one that began it."""

from pathlib import Path

import pytest

from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import WebSpec
from tests.e2e.crawls import Crawler, check_exact, pages_asked

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
