"""A fleet is told to ask again: for what failed, for all it knows; as often as an operator says so."""

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import Errors, WebSpec
from tests.e2e.crawls import Crawler
from tests.e2e.test_e2e_kafka import fleet

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


def test_a_fleet_tries_again_what_failed_each_time_it_is_told_to(tmp_path: Path, kafka_url: str) -> None:
    with RunningWeb(WebSpec(hosts=4, pages=20, errors=Errors(missing=0.2))) as web:
        with fleet(tmp_path, kafka_url, 0) as running:
            early = running.crawler.run("seed", "--retry-failed")
            assert early.returncode == 2
            assert "its seeds are its scope" in early.stderr
            assert running.crawler.run("seed", *web.seeds()).returncode == 0
            running.wait_complete()
            rows = running.crawler.rows()
            failed = {row["url"] for row in rows if row["http_status"] == "404"}
            assert running.crawler.status()["failed"] == len(failed) > 0
            for _ in range(2):
                asked = len(web.requests())
                told = running.crawler.run("seed", "--retry-failed")
                assert told.stdout == f"{len(failed)} URLs accepted\n", told.stderr
                running.wait_complete()
                again = [request for request in web.requests()[asked:] if request.path != "/robots.txt"]
                assert len(again) == len(failed)
                assert Counter(request.status for request in again) == {404: len(failed)}
            asked = len(web.requests())
            assert running.crawler.run("seed", "--refresh").returncode == 0
            running.wait_complete()
            again = [request for request in web.requests()[asked:] if request.path != "/robots.txt"]
            assert len(again) == len(rows) - len(failed)
            why = running.crawler.run("explain", failed.pop())
            assert "`headrace seed --retry-failed` asks for it again" in why.stdout


def test_embedded_it_is_the_crawl_that_asks_again(tmp_path: Path) -> None:
    for option in ("--refresh", "--retry-failed"):
        done = Crawler(tmp_path).run("seed", option)
        assert done.returncode == 2
        assert f"headrace crawl {option}" in done.stderr
