"""The very commands of docker-compose.yml, with the environment it gives them, as plain processes on a real Kafka and a
real PostgreSQL, seen by a real Prometheus: hosts are mapped to loopback, mounts to folders, nothing else is changed."""

import json
import os
import random
import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import WebSpec
from deploy.kafka.jars import CannotRun
from tests.deploy.compose_file import OURS, Service, command_of, environment_of, mounted, services
from tests.deploy.compose_kafka import ComposeKafka
from tests.e2e.crawls import Rows, check_exact, kill, pages_asked, until
from tests.headrace_command import environment, headrace, start
from tests.postgres_server import Server
from tests.prometheus_server import program, prometheus

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

DELAY = 0.4
PASSWORD = "p@ss:/word%20"  # what would break an address with the password in it
ENV = {
    "HEADRACE_CONTACT": "tests@example.org",
    "POSTGRES_PASSWORD": PASSWORD,
    "GRAFANA_PASSWORD": "not-asked-for",
    "HEADRACE_STREAMS__PARTITIONS": "8",
}


class Fleet:
    """`containers`: each process has an address of its own, as a container has, and the port that the file fixes."""

    def __init__(self, folder: Path, kafka: str, postgres: str, config: Path) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.services = {
            name: service for name, service in services(ENV | {"CRAWL_CONFIG": str(config)}).items() if name in OURS
        }
        self.places = {"kafka:9092": kafka, "postgres:5432": postgres, "/workspace": str(self.workspace)}
        self.containers: list[tuple[str, str, subprocess.Popen[bytes]]] = []
        self._network = f"127.{random.randint(64, 250)}.{random.randint(0, 250)}"

    def environment(self, service: Service, address: str) -> dict[str, str]:
        mounts = mounted(service)
        assert mounts["/workspace"] == "workspace"
        config = {"/etc/headrace/crawl.yaml": mounts["/etc/headrace/crawl.yaml"]}
        return environment_of(service, self.places | config | {"0.0.0.0": address})

    def start(self, name: str) -> "subprocess.Popen[bytes]":
        address = f"{self._network}.{len(self.containers) + 1}"
        settings = self.environment(self.services[name], address)
        command, log = command_of(self.services[name]), self.folder / f"{name}-{len(self.containers)}.log"
        process = start(*command, cwd=self.folder, log=log, **settings)
        self.containers.append((name, f"{address}:{settings['HEADRACE_METRICS__PORT']}", process))
        return process

    def once(self, name: str, *args: str) -> str:
        """A one-shot, or a command as the Makefile gives it to the service `headrace`."""
        service = self.services[name]
        settings = self.environment(service, "127.0.0.1")
        done = headrace(*(args or command_of(service)), cwd=self.folder, timeout=60, stdin="", **settings)
        assert done.returncode == 0, (name, args, done.stderr)
        return done.stdout

    def targets(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, address, _ in self.containers:
            found.setdefault(name, []).append(address)
        return found

    def healthy(self, name: str, address: str) -> bool:
        """By the file's own check."""
        _, program, *rest = self.services[name]["healthcheck"]["test"]
        assert program == "python"
        host = address.partition(":")[0]
        command = ["python3", *(word.replace("127.0.0.1", host) for word in rest)]
        return subprocess.run(command, env=environment(), capture_output=True, timeout=30).returncode == 0

    def all_healthy(self) -> bool:
        dead = [name for name, _, process in self.containers if process.poll() is not None]
        assert not dead, (dead, self.logs())
        return all(self.healthy(name, address) for name, address, _ in self.containers)

    @staticmethod
    def lanes(address: str) -> list[int]:
        """Partitions that this process serves."""
        try:
            with urllib.request.urlopen(f"http://{address}/status", timeout=5) as reply:
                [service] = json.load(reply)["services"].values()
        except (OSError, KeyError, ValueError):
            return []
        found: list[int] = service["lanes"]
        return found

    def wait_complete(self, timeout: float = 120) -> None:
        end = time.monotonic() + timeout
        while not (status := json.loads(self.once("headrace", "status", "--json")))["complete"]:
            dead = [name for name, _, process in self.containers if process.poll() is not None]
            assert not dead, (dead, self.logs())
            assert time.monotonic() < end, (status, self.logs())
            time.sleep(0.3)

    def rows(self) -> Rows:
        lines = map(json.loads, self.once("headrace", "pages", "--format", "jsonl").splitlines())
        return [{name: "" if value is None else str(value) for name, value in line.items()} for line in lines]

    def logs(self) -> str:
        return "\n".join(f"{path.name}: {path.read_text()[-1500:]}" for path in sorted(self.folder.glob("*.log")))


@pytest.fixture
def postgres(postgres_server: Server) -> Iterator[str]:
    """host:port of a server with the role and the database of the file, as the image makes them at its first start."""
    postgres_server.run("CREATE ROLE headrace LOGIN PASSWORD '" + PASSWORD + "'")
    postgres_server.run("CREATE DATABASE headrace OWNER headrace")
    try:
        yield f"127.0.0.1:{postgres_server.port}"
    finally:
        postgres_server.run("DROP DATABASE headrace WITH (FORCE)")
        postgres_server.run("DROP ROLE headrace")


@pytest.fixture(scope="module")
def kafka() -> Iterator[ComposeKafka]:
    try:
        broker = ComposeKafka(services(ENV)["kafka"])
        with broker:
            yield broker
    except CannotRun as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture
def fleet(tmp_path: Path, kafka: ComposeKafka, postgres: str) -> Iterator[Fleet]:
    config = tmp_path / "crawl.yaml"
    config.write_text(
        f"politeness: {{delay: {DELAY}}}\n"
        "scope: {mode: all}\n"
        "fetch: {allow_private: [127.0.0.0/8]}\n"
        "parser: {workers: 1}\n"
    )
    running = Fleet(tmp_path, kafka.address, postgres, config)
    yield running
    for _, _, process in running.containers:
        kill(process)


async def test_every_setting_of_kafka_in_the_file_is_one_it_knows(kafka: ComposeKafka) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.address)
    await admin.start()
    try:
        [answer] = await admin.describe_configs([ConfigResource(ConfigResourceType.BROKER, "1")])
    finally:
        await admin.close()
    in_force = {row[0]: row[1] for row in answer.resources[0][4]}
    given = services(ENV)["kafka"]["environment"]
    for variable in given.keys() - {"KAFKA_HEAP_OPTS", "EXTRA_ARGS"}:  # of the start script
        name = variable.removeprefix("KAFKA_").lower().replace("_", ".")
        assert in_force[name] is not None, f"Kafka knows no {name}"  # it shows what it does not know, without the value
        if given[variable].isdigit():
            assert in_force[name] == given[variable]


def test_kafka_logs_to_its_output_and_into_no_file(kafka: ComposeKafka) -> None:
    """What the image would write beside it would fill its small tmpfs."""
    assert re.search(r"^\[20.+\] INFO .+\(org\.apache\.kafka\.", (kafka.home / "server.log").read_text(), re.MULTILINE)
    assert not [*kafka.home.glob("logs/*"), *kafka.home.glob("*.log.*")]


def test_the_commands_of_the_compose_file_crawl_a_web_together(fleet: Fleet) -> None:
    program("prometheus")  # skips now, not after the crawl
    # Hosts that know nothing of each other: what is left for the one that joins half-way is decided by the seeds.
    with RunningWeb(WebSpec(hosts=24, pages=12, cross=0)) as web:
        seeds = web.seeds(24)
        assert "created links.discovered" in fleet.once("topics")
        for name in ("frontier", "fetcher", "fetcher", "parser", "storer"):
            fleet.start(name)
        until(fleet.all_healthy, 60, "health")
        assert "8 seeds" in fleet.once("headrace", "seed", *seeds[:8])
        until(lambda: len(pages_asked(web)) > 30, 60, "some pages")
        fleet.start("fetcher")
        with prometheus(fleet.targets()) as seen:
            until(lambda: all(map(fleet.lanes, fleet.targets()["fetcher"])), 60, "a share for each of the three")
            assert "16 seeds" in fleet.once("headrace", "seed", *seeds[8:])
            fleet.wait_complete()
            seen.wait_up(6)
            assert [name for name, _ in seen.up()] == ["fetcher"] * 3 + ["frontier", "parser", "storer"]
            fetched = {
                row["metric"]["instance"]: float(row["value"][1]) for row in seen.query("crawler_pages_fetched_total")
            }
        assert set(fetched) == {address for name, address, _ in fleet.containers if name == "fetcher"}
        assert all(fetched.values()), fetched
        check_exact(web, fleet.rows(), fleet.workspace, seeds)
        assert not web.under(DELAY)
        slots = {path.name for path in (fleet.workspace / "state").iterdir()}
        assert {"frontier-0", "fetcher-0", "fetcher-1", "fetcher-2", "parser-0", "storer-0"} <= slots
        processes = [process for _, _, process in fleet.containers]
        for process in processes:
            process.send_signal(signal.SIGTERM)
        assert [process.wait(30) for process in processes] == [0] * 6, fleet.logs()
