"""What is lost is brought back, with the commands of docs/operations.md: bodies, index, state, broker, engine."""

import asyncio
import shutil
import sqlite3
import uuid
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import Errors, Redirects, WebSpec
from headrace_runtime.streams.kafka.topics import delete_topics
from headrace_runtime.streams.open import brokers_of
from tests.e2e.crawls import Crawler, check_exact
from tests.e2e.test_e2e_kafka import fleet

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SPEC = WebSpec(
    hosts=6, pages=12, validators=True, errors=Errors(missing=0.1), redirects=Redirects(inside=0.1, across=0.1)
)


def on_kafka(folder: Path, url: str) -> Crawler:
    return Crawler(
        folder,
        HEADRACE_STREAMS__URL=url,
        HEADRACE_STREAMS__PREFIX=f"t{uuid.uuid4().hex[:8]}.",
        HEADRACE_STREAMS__PARTITIONS="4",
        HEADRACE_STREAMS__SESSION_TIMEOUT="6",
    )


def requests_in(crawler: Crawler) -> list[tuple[str, float]]:
    """The history in the index."""
    with closing(sqlite3.connect(crawler.workspace / "index.sqlite")) as index:
        return sorted(index.execute("SELECT url, at FROM fetches").fetchall())


def test_what_is_lost_of_a_crawl_on_kafka_is_brought_back(tmp_path: Path, kafka_url: str) -> None:
    crawler = on_kafka(tmp_path, kafka_url)
    with RunningWeb(SPEC) as web:
        assert crawler.crawl(web.seeds(), "--delay", "0") == 0, crawler.tail()
        rows, history, asked = crawler.rows(), requests_in(crawler), len(web.requests())

        # the store and the index: from the topics
        shutil.rmtree(crawler.workspace / "store")
        for file in crawler.workspace.glob("index.sqlite*"):
            file.unlink()
        done = crawler.run("replay")
        assert done.returncode == 0, done.stderr
        assert "were not in the store" in done.stdout
        restored = crawler.rows()
        check_exact(web, restored, crawler.workspace)
        assert sorted(map(str, restored)) == sorted(map(str, rows))
        assert requests_in(crawler) == history
        assert "were not in the store" not in crawler.run("replay").stdout

        # the frontier's folder: from the changelog
        shutil.rmtree(crawler.workspace / "state")
        assert crawler.crawl(web.seeds(), "--delay", "0") == 0, crawler.tail()
        assert len(web.requests()) == asked, "nothing was asked for again"

        # the broker, and with it state and offsets: a crawl anew, over the index that is there
        prefix = crawler.environment["HEADRACE_STREAMS__PREFIX"]
        asyncio.run(delete_topics(brokers_of(kafka_url), prefix))
        assert crawler.crawl(web.seeds(), "--delay", "0", "--refresh") == 0, crawler.tail()
        anew(web, crawler, rows, asked)


def test_a_workspace_moves_from_the_embedded_log_to_a_fleet_on_kafka(tmp_path: Path, kafka_url: str) -> None:
    embedded = Crawler(tmp_path)
    with RunningWeb(SPEC) as web:
        assert embedded.crawl(web.seeds(), "--delay", "0") == 0, embedded.tail()
        assert embedded.run("seed", web.url(), "--refresh").returncode == 2
        rows, asked = embedded.rows(), len(web.requests())
        with fleet(tmp_path, kafka_url, 0) as running:
            assert running.crawler.run("seed", *web.seeds(), "--refresh").returncode == 0
            running.wait_complete()
            anew(web, running.crawler, rows, asked)


def anew(web: RunningWeb, crawler: Crawler, before: list[dict[str, str]], asked: int) -> None:
    """Every page that has a body was asked for once, conditionally, and its row tells of that."""
    again = web.requests()[asked:]
    bodies = {row["url"] for row in before if row["stored_path"]}
    conditional = [request for request in again if request.inm]
    assert {request.status for request in conditional} == {304}
    assert len(conditional) == len(bodies)
    after = {row["url"]: row for row in crawler.rows()}
    assert after.keys() >= bodies
    for row in before:
        now = after[row["url"]]
        if row["stored_path"]:
            assert now["timestamp"] > row["timestamp"], "a row of the crawl before was taken for newer"
            assert (now["content_sha256"], now["stored_path"]) == (row["content_sha256"], row["stored_path"])
    assert Counter(row["http_status"] for row in after.values())["304"] == len(conditional)
