"""Whole crawls with PostgreSQL as the index: the same answers as from SQLite, through servers that die under way."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import Errors, Redirects, WebSpec
from tests.e2e.crawls import Crawler, check_exact, kill, until
from tests.e2e.test_e2e_kafka import facts, fleet
from tests.e2e.test_e2e_process import free_port, get
from tests.postgres_server import Server

WEB = WebSpec(
    hosts=8, pages=8, errors=Errors(missing=0.1, broken=0.05), redirects=Redirects(inside=0.1), validators=True
)
QUICK_RETRY = ("--set", "retry.base=0.05")
DIFFERS = ("timestamp", "fetch_latency_ms", "referrer", "depth")
"""Between two crawls of one web: which of its parents, or of their redirects, led to a page first is a race."""


def with_password(server: Server, own_url: str) -> str:
    return server.tcp(make_url(own_url).database or "")


def shown(crawler: Crawler, *args: str) -> str:
    done = crawler.run(*args)
    assert done.returncode == 0, done.stderr
    return done.stdout


def pages(crawler: Crawler) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in shown(crawler, "pages", "--format", "jsonl").splitlines()]
    for row in rows:
        row["metadata"].pop("chain", None)
        for name in DIFFERS:
            del row[name]
    return sorted(rows, key=lambda row: str(row["url"]))


def said(crawler: Crawler, text: str) -> int:
    return crawler.output.read_text().count(text)


def test_a_crawl_whose_database_dies_twice_answers_like_one_on_sqlite(
    postgres_server: Server, own_postgres_url: str, tmp_path: Path
) -> None:
    crawlers: dict[str, Crawler] = {}
    for name, environment in (
        ("sqlite", {}),
        ("postgres", {"HEADRACE_INDEX__URL": with_password(postgres_server, own_postgres_url)}),
    ):
        (tmp_path / name).mkdir()
        crawlers[name] = Crawler(tmp_path / name, **environment)
    lite, post = crawlers["sqlite"], crawlers["postgres"]
    with RunningWeb(WEB) as web:
        seeds = web.seeds()
        assert lite.crawl(seeds, "--delay", "0", *QUICK_RETRY) == 0, lite.tail()
        before, port = len(web.requests()), free_port()
        process = post.begin(seeds, "--delay", "0.3", *QUICK_RETRY, "--set", f"metrics.port={port}")
        try:
            for outage, end in ((postgres_server.stop, 12), (postgres_server.kill, 30)):
                until(lambda end=end: len(web.requests()) > before + end, 60, post.tail())  # type: ignore[misc]
                times = said(post, "nothing is lost")
                outage()
                until(lambda times=times: said(post, "nothing is lost") == times + 1, 60, post.tail())  # type: ignore[misc]
                status, text = get(f"http://127.0.0.1:{port}/readyz")
                assert (status, "storer waits" in text) == (503, True), text
                postgres_server.start()
                until(lambda times=times: said(post, "storing again after") == times + 1, 60, post.tail())  # type: ignore[misc]
            assert process.wait(120) == 0, post.tail()
        finally:
            kill(process)
        assert said(post, "nothing is lost") == 2  # not a line for each try
        check_exact(web, post.rows(), post.workspace)

        assert pages(post) == pages(lite)
        some = next(row["url"] for row in pages(lite) if row["stored_path"])
        assert shown(post, "show", some, "--markdown") == shown(lite, "show", some, "--markdown")
        counts = [{k: v for k, v in c.status().items() if isinstance(v, int)} for c in (post, lite)]
        assert counts[0] == counts[1]
        proofs = [json.loads(shown(crawler, "politeness", "prove", "--json")) for crawler in (post, lite)]
        for proof in proofs:
            assert (proof["host_count"], proof["short_gaps"]) == (WEB.hosts, 0)
        assert proofs[0]["request_count"] == proofs[1]["request_count"]
        asked = []
        for crawler in (post, lite):
            start = len(web.requests())
            again = crawler.crawl(seeds, "--delay", "0", *QUICK_RETRY, "--refresh", "--retry-failed")
            assert again == 0, crawler.tail()
            asked.append(sorted((r.ip, r.path) for r in web.requests()[start:] if r.path != "/robots.txt"))
        assert asked[0] == asked[1]
        assert len(asked[0]) > 20
        assert pages(post) == pages(lite)
        everything = post.output.read_text() + shown(post, "config", "show") + shown(post, "status")
        assert postgres_server.password not in everything


def test_a_stop_during_an_outage_ends_and_the_next_crawl_completes(
    postgres_server: Server, own_postgres_url: str, tmp_path: Path
) -> None:
    crawler = Crawler(tmp_path, HEADRACE_INDEX__URL=with_password(postgres_server, own_postgres_url))
    with RunningWeb(WebSpec(hosts=8, pages=6)) as web:
        process = crawler.begin(web.seeds(), "--delay", "0.1")
        try:
            until(lambda: len(web.requests()) > 20, 60, crawler.tail())
            postgres_server.stop()
            until(lambda: said(crawler, "nothing is lost") == 1, 60, crawler.tail())
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 130, crawler.tail()
        finally:
            kill(process)
        postgres_server.start()
        assert crawler.crawl(web.seeds(), "--delay", "0") == 0, crawler.tail()
        check_exact(web, crawler.rows(), crawler.workspace)
        assert "not waited for" not in crawler.output.read_text()


def test_a_wrong_password_is_one_line_and_exit_code_2(postgres_server: Server, tmp_path: Path) -> None:
    url = f"postgresql://postgres:s3cret@127.0.0.1:{postgres_server.port}/postgres"
    crawler = Crawler(tmp_path, HEADRACE_INDEX__URL=url)
    assert crawler.crawl(["http://127.0.0.1:9/"]) == 2
    errors = [line for line in crawler.output.read_text().splitlines() if "authentication failed" in line]
    assert len(errors) == 1
    assert "index.url postgresql://postgres:***@127.0.0.1" in errors[0]
    done = crawler.run("pages")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    configured = crawler.run("config", "show")
    assert "s3cret" not in crawler.output.read_text() + done.stderr + configured.stdout + configured.stderr


@pytest.mark.kafka
@pytest.mark.slow
def test_a_fleet_whose_database_dies_and_falls_silent_loses_nothing(
    postgres_server: Server, own_postgres_url: str, tmp_path: Path, kafka_url: str
) -> None:
    with RunningWeb(WebSpec(hosts=12, pages=12)) as web, fleet(tmp_path, kafka_url, 0.3, ()) as running:
        url = with_password(postgres_server, own_postgres_url)
        running.crawler.environment["HEADRACE_INDEX__URL"] = f"{url}?connect_timeout=2"
        for service in ("frontier", "fetcher", "parser", "storer", "storer"):
            running.start(service)
        assert running.crawler.run("seed", *web.seeds(12)).returncode == 0
        until(lambda: len(web.requests()) > 30, 60, running.logs())
        postgres_server.kill()
        until(lambda: "nothing is lost" in running.logs(), 60, running.logs())
        postgres_server.start()
        asked = len(web.requests())
        until(lambda: len(web.requests()) > asked + 20, 60, running.logs())
        postgres_server.pause()
        first = next(process for name, process in running.processes if name == "storer")
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == 0, running.logs()
        running.processes = [(name, process) for name, process in running.processes if process is not first]
        postgres_server.resume()
        running.wait_complete()
        rows = running.crawler.rows()
        check_exact(web, rows, running.crawler.workspace, web.seeds(12))
        assert len(facts(rows)) == len(set(facts(rows)))
        assert postgres_server.password not in "".join(log.read_text() for log in tmp_path.glob("*.log"))
