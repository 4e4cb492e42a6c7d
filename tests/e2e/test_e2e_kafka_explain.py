"""`headrace explain` on Kafka: the frontier that owns the partition is asked, wherever it is now."""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headrace_schemas.settings import Settings
from headrace_schemas.urls import Partitioner
from tests.e2e.crawls import until
from tests.e2e.scripted import ScriptedWeb, failing, page
from tests.e2e.test_e2e_kafka import SERVICES, Fleet, fleet

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

HOSTS = 6
PARTITIONS = 8


def explain(running: Fleet, url: str) -> dict[str, Any]:
    done = running.crawler.run("explain", url, "--json")
    assert done.returncode == 0, (done.stderr, running.logs())
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def refused(done: "subprocess.CompletedProcess[str]", code: int, *words: str) -> None:
    assert (done.returncode, done.stdout) == (code, ""), (done.stdout, done.stderr)
    [line] = done.stderr.splitlines()
    for word in words:
        assert word in line, line


def crawled(running: Fleet, web: ScriptedWeb) -> None:
    """Every host has a page, and one that it must be left alone after."""
    for host in range(HOSTS):
        web.set("/", page("/busy", "/missing"), host)
        web.set("/busy", failing(503, ("Retry-After", "3000")), host)
    assert running.crawler.run("seed", *(web.url("/", host) for host in range(HOSTS))).returncode == 0
    until(lambda: running.crawler.status()["fetched"] == HOSTS, 90, running.logs())
    busy = {web.url("/busy", host) for host in range(HOSTS)}
    until(lambda: busy <= set(web.asked) and stored(running.crawler.status()), 90, running.logs())


def stored(status: dict[str, Any]) -> bool:
    """All answers are settled, and in the index."""
    return status["in_flight"] == 0 and not any(name.startswith("storer") for name in status["lag"])


def test_the_owner_of_a_partition_is_asked_and_after_its_death_the_one_that_took_over(
    tmp_path: Path, kafka_url: str
) -> None:
    services = ("frontier", *SERVICES)
    hosts = [f"127.41.0.{number}" for number in range(1, HOSTS + 1)]
    with ScriptedWeb(*hosts) as web, fleet(tmp_path, kafka_url, 0, services) as running:
        crawled(running, web)
        owners = {host: explain(running, web.url("/", host))["owner"] for host in range(HOSTS)}
        assert len(set(owners.values())) == 2, "both frontiers have hosts of their own"
        partition = Partitioner(PARTITIONS, Settings().politeness.key).partition
        for host, owner in owners.items():
            said = explain(running, web.url("/busy", host))
            assert (said["owner"], said["partition"]) == (owner, partition(web.url("/", host)))
            assert (said["state"], said["running"]) == ("queued", True)
            assert {wait["for"] for wait in said["waits"]} == {"retry_after", "retry"}
            assert [fetch["status"] for fetch in said["answers"]["fetches"]] == [503]
        text = running.crawler.run("explain", web.url("/busy")).stdout
        assert f"next     {hosts[0]} asked to be left alone (Retry-After) until " in text
        assert "every host waits" in running.crawler.run("status").stdout
        never = running.crawler.run("explain", web.url("/never"))
        assert "state    never found" in never.stdout

        first, second = [process for name, process in running.processes if name == "frontier"]
        dead = address_of(tmp_path / "frontier-0.log")
        [new] = set(owners.values()) - {dead}
        moved = [host for host, owner in owners.items() if owner == dead]
        running.kill(first)
        for host in moved:
            until(lambda there=host: owner_now(running, web, there) == new, 60, running.logs())  # type: ignore[misc]
            assert explain(running, web.url("/busy", host))["attempts"] == 1, "its state has moved with it"

        second.send_signal(signal.SIGTERM)
        second.wait(30)
        running.processes = [(name, process) for name, process in running.processes if process is not second]
        refused(running.crawler.run("explain", web.url("/")), 1, "no frontier answers at", new)
        refused(running.crawler.run("explain", "garbage"), 2, "no http(s) URL")


def address_of(log: Path) -> str:
    """What a service says when it starts."""
    said = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return str(next(record["address"] for record in said if record.get("address")))


def owner_now(running: Fleet, web: ScriptedWeb, host: int) -> str:
    """Empty while nobody answers for it: its last owner is dead, and the group does not know that yet."""
    done = running.crawler.run("explain", web.url("/", host), "--json")
    if done.returncode:
        refused(done, 1, "partition")
        return ""
    return str(json.loads(done.stdout)["owner"])


def test_with_no_frontier_that_ever_ran_one_line_says_so(tmp_path: Path, kafka_url: str) -> None:
    with fleet(tmp_path, kafka_url, 0, ()) as running:
        refused(running.crawler.run("explain", "http://127.0.0.1:1/"), 1, "no frontier", "is one running")
