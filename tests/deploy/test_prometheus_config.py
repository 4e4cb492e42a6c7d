"""The configuration of Prometheus, judged by Prometheus."""

import asyncio
import subprocess

import yaml

from headrace.compose import BUILDERS
from headrace_runtime.endpoint import Endpoint, new_registry
from tests.prometheus_server import CONFIG, adapted, program, prometheus


def test_promtool_accepts_the_configuration_and_the_rules() -> None:
    done = subprocess.run([program("promtool"), "check", "config", str(CONFIG)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_service_is_looked_up() -> None:
    [job] = [job for job in yaml.safe_load(CONFIG.read_text())["scrape_configs"] if job["job_name"] == "headrace"]
    assert set(BUILDERS) <= set(job["dns_sd_configs"][0]["names"])


def test_only_what_dns_says_is_replaced_for_a_test() -> None:
    [job] = adapted(CONFIG, {"fetcher": ["127.0.0.1:1", "127.0.0.1:2"]}, "1s")["scrape_configs"]
    assert job["static_configs"] == [
        {"targets": ["127.0.0.1:1", "127.0.0.1:2"], "labels": {"__meta_dns_name": "fetcher"}}
    ]
    assert job["relabel_configs"]


async def test_a_real_prometheus_scrapes_two_processes_of_a_service() -> None:
    def ready() -> tuple[bool, str]:
        return True, "ok"

    endpoints = [Endpoint(new_registry(), "127.0.0.1", 0, ready, dict) for _ in range(2)]
    addresses = [await endpoint.start() for endpoint in endpoints]

    def ask() -> set[str]:
        with prometheus({"fetcher": addresses}) as server:
            server.wait_up(2)
            return {found["metric"]["service"] for found in server.query("process_cpu_seconds_total")}

    try:
        assert await asyncio.to_thread(ask) == {"fetcher"}
    finally:
        for endpoint in endpoints:
            await endpoint.close()
