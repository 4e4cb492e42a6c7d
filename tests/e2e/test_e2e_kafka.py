"""Whole crawls on a real Kafka: the same pages as embedded, shared work, and processes that die."""

import itertools
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import Redirects, WebSpec
from tests.e2e.crawls import Crawler, Rows, check_exact, pages_asked, until
from tests.headrace_command import start

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

SERVICES = ("frontier", "fetcher", "parser", "storer")


class Fleet:
    """Services of one crawl, each a process; whatever is left of them ends with the test."""

    def __init__(self, folder: Path, kafka_url: str, delay: float, partitions: int = 8) -> None:
        self.crawler = Crawler(
            folder,
            HEADRACE_STREAMS__URL=kafka_url,
            HEADRACE_STREAMS__PREFIX=f"t{uuid.uuid4().hex[:8]}.",
            HEADRACE_STREAMS__PARTITIONS=str(partitions),
            HEADRACE_STREAMS__SESSION_TIMEOUT="6",
            HEADRACE_WORKSPACE=str(folder / "ws"),
            HEADRACE_CONTACT="tests@example.org",
            HEADRACE_SCOPE__MODE="all",
            HEADRACE_FETCH__ALLOW_PRIVATE='["127.0.0.0/8"]',
            HEADRACE_POLITENESS__DELAY=str(delay),
        )
        self.folder = folder
        self.processes: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._numbers = itertools.count()

    def start(self, service: str) -> "subprocess.Popen[bytes]":
        log = self.folder / f"{service}-{next(self._numbers)}.log"
        process = start("run", service, cwd=self.folder, log=log, **self.crawler.environment)
        self.processes.append((service, process))
        return process

    def kill(self, process: "subprocess.Popen[bytes]") -> None:
        process.kill()
        process.wait()
        self.processes = [(name, other) for name, other in self.processes if other is not process]

    def wait_complete(self, timeout: float = 120) -> None:
        end = time.monotonic() + timeout
        while not (status := self.crawler.status())["complete"]:
            dead = [(name, p.returncode) for name, p in self.processes if p.poll() is not None]
            assert not dead, (dead, self.logs())
            assert time.monotonic() < end, (status, self.logs())
            time.sleep(0.5)

    def logs(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text()[-1500:]}" for path in sorted(self.folder.glob("*.log")))

    def stop(self) -> None:
        for _, process in self.processes:
            process.terminate()
        for _, process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def fleet(folder: Path, kafka_url: str, delay: float, services: tuple[str, ...] = SERVICES) -> Iterator[Fleet]:
    running = Fleet(folder, kafka_url, delay)
    try:
        made = running.crawler.run("topics", "create")
        assert made.returncode == 0, made.stderr
        for service in services:
            running.start(service)
        yield running
    finally:
        running.stop()


def facts(rows: Rows) -> list[tuple[str, ...]]:
    return sorted((row["url"], row["http_status"], row["content_sha256"]) for row in rows)


def test_the_same_seeds_give_the_same_pages_on_both_engines(tmp_path: Path, kafka_url: str) -> None:
    spec = WebSpec(hosts=12, pages=15, redirects=Redirects(inside=0.1, across=0.1))
    with RunningWeb(spec) as web:
        embedded = Crawler(tmp_path / "embedded")
        embedded.folder.mkdir()
        assert embedded.crawl(web.seeds(), "--delay", "0") == 0, embedded.tail()
        check_exact(web, embedded.rows(), embedded.workspace)
        folder = tmp_path / "kafka"
        folder.mkdir()
        with fleet(folder, kafka_url, 0) as running:
            assert running.crawler.run("seed", *web.seeds()).returncode == 0
            running.wait_complete()
            assert facts(running.crawler.rows()) == facts(embedded.rows())
            shown = running.crawler.run("topics", "show")
            assert shown.returncode == 0, shown.stderr
            processes = [process for _, process in running.processes]
            for process in processes:
                process.send_signal(signal.SIGTERM)
            assert [process.wait(30) for process in processes] == [0] * len(processes), running.logs()


def test_crawl_runs_all_services_on_kafka_and_ends_by_itself(tmp_path: Path, kafka_url: str) -> None:
    running = Fleet(tmp_path, kafka_url, 0)
    with RunningWeb(WebSpec(hosts=8, pages=10)) as web:  # it makes its topics by itself
        assert running.crawler.crawl(web.seeds(), "--delay", "0") == 0, running.crawler.tail()
        check_exact(web, running.crawler.rows(), running.crawler.workspace)
        asked = len(web.requests())
        assert running.crawler.crawl(web.seeds(), "--delay", "0") == 0, running.crawler.tail()
        assert len(web.requests()) == asked
        assert running.crawler.run("replay", "--dry-run").returncode == 0
        assert len(web.requests()) == asked


def test_two_fetchers_share_the_work_and_one_that_is_killed_loses_nothing(tmp_path: Path, kafka_url: str) -> None:
    services = ("frontier", "fetcher", "fetcher", "parser", "storer")
    with RunningWeb(WebSpec(hosts=24, pages=20)) as web, fleet(tmp_path, kafka_url, 0.5, services) as running:
        first, second = (process for name, process in running.processes if name == "fetcher")
        assert running.crawler.run("seed", *web.seeds(24)).returncode == 0
        until(lambda: len(web.requests()) > 100, 60, running.logs())
        assert len({request.conn for request in web.requests()}) > 1
        running.kill(first)
        running.wait_complete()
        assert second.poll() is None
        check_exact(web, running.crawler.rows(), running.crawler.workspace, web.seeds(24))
        assert not web.under(0.5)


def test_each_service_killed_under_way_and_started_again_loses_nothing(tmp_path: Path, kafka_url: str) -> None:
    with RunningWeb(WebSpec(hosts=20, pages=12)) as web, fleet(tmp_path, kafka_url, 0.5) as running:
        assert running.crawler.run("seed", *web.seeds()).returncode == 0
        for service in ("storer", "parser", "fetcher", "frontier"):
            asked = len(web.requests())
            until(lambda n=asked: len(web.requests()) > n + 15, 60, running.logs())  # type: ignore[misc]
            running.kill(next(process for name, process in running.processes if name == service))
            running.start(service)
        running.wait_complete()
        check_exact(web, running.crawler.rows(), running.crawler.workspace)
        assert not web.under(0.5)


def test_pause_and_resume_reach_the_fleet_through_the_topics(tmp_path: Path, kafka_url: str) -> None:
    with RunningWeb(WebSpec(hosts=10, pages=30)) as web, fleet(tmp_path, kafka_url, 0.2) as running:
        assert running.crawler.run("seed", *web.seeds(10)).returncode == 0
        until(lambda: len(web.requests()) > 30, 60, running.logs())
        assert running.crawler.run("pause").returncode == 0
        time.sleep(1.0)
        asked = len(web.requests())
        time.sleep(1.5)
        assert len(web.requests()) == asked
        assert running.crawler.run("resume").returncode == 0
        running.wait_complete()
        check_exact(web, running.crawler.rows(), running.crawler.workspace, web.seeds(10))


def test_max_pages_is_met_exactly_with_two_frontiers(tmp_path: Path, kafka_url: str) -> None:
    services = ("frontier", "frontier", "fetcher", "parser", "storer")
    with RunningWeb(WebSpec(hosts=20, pages=20)) as web, fleet(tmp_path, kafka_url, 0, services) as running:
        running.crawler.environment["HEADRACE_LIMITS__MAX_PAGES"] = "137"
        assert running.crawler.run("seed", *web.seeds(20)).returncode == 0
        running.wait_complete()
        assert running.crawler.status()["fetched"] == 137
        assert len(pages_asked(web)) == 137
        assert len(running.crawler.rows()) == 137
