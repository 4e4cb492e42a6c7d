"""A real Prometheus on loopback for tests: our own configuration, its targets replaced by processes of the test."""

import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.kafka.broker import free_ports

CONFIG = Path(__file__).parent.parent / "deploy" / "prometheus" / "prometheus.yml"
_SECONDS = 60.0
_TRIES = 5


def program(name: str) -> str:
    """`prometheus` or `promtool`: the machine's own, or what `make tools` brought. Skips the test without it."""
    beside = Path(sys.executable).with_name(name)
    found = shutil.which(name) or (str(beside) if beside.exists() else None)
    if found is None:
        pytest.skip(f"no {name}: `make tools` brings it (Debian)")
    return found


class Prometheus:
    """What it knows, asked over its HTTP API."""

    def __init__(self, url: str) -> None:
        self.url = url

    def api(self, path: str, **query: str) -> Any:
        """→ `data` of the answer; an answer that says no is an AssertionError with its reason."""
        asked = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(asked, timeout=30) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{asked}: {error.read().decode()}") from None

    def query(self, expression: str) -> list[dict[str, Any]]:
        """An instant vector: [{"metric": {label: value}, "value": [time, text]}]."""
        found: list[dict[str, Any]] = self.api("query", query=expression)["result"]
        return found

    def names(self) -> set[str]:
        """Every metric it has a series of."""
        return set(self.api("label/__name__/values"))

    def up(self) -> list[tuple[str, str]]:
        """(service, host:port) of every target of ours that answered its last scrape."""
        found = self.api("targets", state="active")["activeTargets"]
        return sorted(
            (target["labels"].get("service", ""), target["labels"]["instance"])
            for target in found
            if target["labels"]["job"] == "headrace" and target["health"] == "up"
        )

    def wait_up(self, count: int, timeout: float = _SECONDS) -> None:
        end = time.monotonic() + timeout
        while len(self.up()) < count:
            assert time.monotonic() < end, self.api("targets", state="active")
            time.sleep(0.1)


@contextmanager
def prometheus(
    targets: Mapping[str, Sequence[str]], *, config: Path = CONFIG, interval: str = "1s"
) -> Iterator[Prometheus]:
    """`targets`: service → host:port of its processes. Scraped and evaluated every `interval`."""
    binary = program("prometheus")
    with tempfile.TemporaryDirectory(prefix="headrace-prometheus-") as folder:
        home = Path(folder)
        own = home / "prometheus.yml"
        own.write_text(yaml.safe_dump(adapted(config, targets, interval)))
        process, url = _start(binary, own, home)
        try:
            yield Prometheus(url)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def adapted(config: Path, targets: Mapping[str, Sequence[str]], interval: str) -> dict[str, Any]:
    """The same file, but for intervals and for what DNS would have answered; its relabelling stays."""
    whole: dict[str, Any] = yaml.safe_load(config.read_text())
    whole["global"] = {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval}
    whole["rule_files"] = [str(config.parent / name) for name in whole.get("rule_files", [])]
    jobs = [job for job in whole["scrape_configs"] if job.pop("dns_sd_configs", None)]
    for job in jobs:
        job["static_configs"] = [
            {"targets": list(addresses), "labels": {"__meta_dns_name": service}}
            for service, addresses in targets.items()
        ]
    return whole | {"scrape_configs": jobs}


def _start(binary: str, config: Path, home: Path) -> "tuple[subprocess.Popen[bytes], str]":
    log = home / "prometheus.log"
    for _ in range(_TRIES):  # a free port is free only until somebody binds it
        address = f"127.0.0.1:{free_ports(1)[0]}"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [
                    binary,
                    f"--config.file={config}",
                    f"--storage.tsdb.path={home / 'data'}",
                    f"--web.listen-address={address}",
                    "--log.level=warn",
                ],
                cwd=home,
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )
        if _ready(process, f"http://{address}"):
            return process, f"http://{address}"
        process.kill()
        process.wait()
        said = log.read_text()
        if "address already in use" not in said:
            break
    raise AssertionError(f"Prometheus did not start: {said[-2000:]}")


def _ready(process: "subprocess.Popen[bytes]", url: str) -> bool:
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=5):
                return process.poll() is None
        except OSError:
            time.sleep(0.1)
    return False
