"""What a running crawl shows of itself, and the signals it obeys."""

import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path

from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import WebSpec
from tests.e2e.crawls import Crawler, kill, until

DASHBOARD = (
    "crawler_pages_fetched_total",
    "crawler_pages_per_second",
    "crawler_fetch_success_rate",
    'crawler_http_status_total{code="200",kind="page"}',
    "crawler_frontier_size",
    "crawler_robots_denials_total",
    "crawler_active_workers",
)
BESIDE = (
    'headrace_lag{group="parser",topic="pages.fetched"}',
    "headrace_unit_seconds_bucket",
    "crawler_fetch_bytes_total",
    "crawler_queue_age_seconds",
    "crawler_policy_reject_total",
    "crawler_pages_parsed_total",
    "crawler_pages_stored_total",
    "process_cpu_seconds_total",
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_running_crawl_shows_the_metrics_that_dashboards_use(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=10, pages=40)) as web:
        crawler, port = Crawler(tmp_path), free_port()
        process = crawler.begin(web.seeds(), "--delay", "0.2", "--set", f"metrics.port={port}")
        try:
            until(lambda: len(web.requests()) > 40, what=crawler.tail())
            base = f"http://127.0.0.1:{port}"
            assert get(f"{base}/healthz")[0] == 200
            assert get(f"{base}/readyz")[0] == 200
            assert get(f"{base}/nothing")[0] == 404
            assert '"frontier"' in get(f"{base}/status")[1]
            until(lambda: "headrace_lag{" in get(f"{base}/metrics")[1])
            shown = get(f"{base}/metrics")[1]
            names = [name for name in (*DASHBOARD, *BESIDE) if name not in shown]
            assert not names, names
        finally:
            kill(process)


def test_usr1_prints_what_it_is_doing_and_hup_reloads_what_can_be_reloaded(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=10, pages=40)) as web:
        crawler, config = Crawler(tmp_path), tmp_path / "c.yaml"
        config.write_text("politeness:\n  delay: 0.5\nlimits:\n  max_pages: 300\n")
        process = crawler.begin(web.seeds(10), "--config", str(config))
        try:
            until(lambda: len(web.requests()) > 20, what=crawler.tail())
            process.send_signal(signal.SIGUSR1)
            until(lambda: "in_flight" in crawler.tail(), what=crawler.tail())
            config.write_text("politeness:\n  delay: nonsense\n")
            process.send_signal(signal.SIGHUP)
            until(lambda: "not reloaded" in crawler.tail(), what=crawler.tail())
            assert process.poll() is None
            config.write_text("politeness:\n  delay: 0\nlimits:\n  max_pages: 50\nfetch:\n  zstd_level: 5\n")
            process.send_signal(signal.SIGHUP)
            until(lambda: "fetch.zstd_level" in crawler.tail(), what=crawler.tail())
            assert process.wait(60) == 0, crawler.tail()
            assert crawler.status()["fetched"] >= 50
            assert crawler.status()["queued"] > 0
        finally:
            kill(process)
