"""Services start in any order: what is not there yet is waited for, what no waiting mends ends in one line."""

import json
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.kafka.broker import Broker, Quorum
from deploy.kafka.jars import CannotRun
from tests.e2e.crawls import kill, until
from tests.headrace_command import headrace, start

SETTINGS = {
    "HEADRACE_CONTACT": "tests@example.org",
    "HEADRACE_STREAMS__PARTITIONS": "2",
    "HEADRACE_PARSER__WORKERS": "1",
}


class Starter:
    """Processes that are started and perhaps not ended by the test itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def __call__(self, *args: str, url: str, prefix: str = "", **more: str) -> "Started":
        log = self.folder / f"{len(self.processes)}.log"
        extra = SETTINGS | {"HEADRACE_STREAMS__URL": url, "HEADRACE_STREAMS__PREFIX": prefix} | more
        process = start(*args, "--workspace", str(self.folder / "ws"), cwd=self.folder, log=log, **extra)
        self.processes.append(process)
        return Started(process, log)


class Started:
    def __init__(self, process: "subprocess.Popen[bytes]", log: Path) -> None:
        self.process, self.log, self.why = process, log, ""

    def lines(self, words: str) -> list[str]:
        return [line for line in self.log.read_text().splitlines() if words in line]

    def waits(self, why: str) -> None:
        until(lambda: any(why in line for line in self.lines("waiting")) or self.ended, 30, self.log.read_text())
        assert not self.ended, self.log.read_text()

    @property
    def ended(self) -> bool:
        return self.process.poll() is not None

    def ready(self) -> bool:
        said: list[dict[str, Any]] = [json.loads(line) for line in self.lines('"starting"')]
        assert not self.ended, self.log.read_text()
        if not said:
            return False
        try:
            with urllib.request.urlopen(f"http://{said[0]['address']}/readyz", timeout=5):
                return True
        except urllib.error.HTTPError as error:
            with error:
                self.why = error.read().decode()
        except OSError:
            pass
        return False


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Starter]:
    starter = Starter(tmp_path)
    yield starter
    for process in starter.processes:
        kill(process)


@pytest.fixture(scope="module")
def late() -> Iterator[Broker]:
    """Its address is known before it runs."""
    broker = Broker(quorum=Quorum.free())
    try:
        yield broker
    finally:
        broker.__exit__(None, None, None)


@pytest.mark.parametrize("command", [("run", "frontier"), ("topics", "create")])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_wait_ends_at_once_when_told_to(begin: Starter, command: tuple[str, ...], number: signal.Signals) -> None:
    waiting = begin(*command, url="kafka://no-such-host.invalid:9092")
    waiting.waits("no such host name: no-such-host.invalid")
    told = time.monotonic()
    waiting.process.send_signal(number)
    code = waiting.process.wait(30)
    assert time.monotonic() - told < 15
    assert code == (0 if command[0] == "run" and number == signal.SIGTERM else 130)
    assert "Traceback" not in waiting.log.read_text()


@pytest.mark.kafka
def test_a_broker_that_comes_up_late_is_waited_for_with_one_line(begin: Starter, late: Broker) -> None:
    frontier, topics = begin("run", "frontier", url=late.url), begin("topics", "create", url=late.url)
    for waiting in (frontier, topics):
        waiting.waits(f"no Kafka broker at {late.address}")
    assert not frontier.ready()
    try:
        late.start()
    except CannotRun as error:
        pytest.skip(str(error))
    assert topics.process.wait(60) == 0, topics.log.read_text()
    assert topics.lines("created links.discovered")
    until(frontier.ready, 60, frontier.log.read_text())
    for waited in (frontier, topics):
        assert len(waited.lines("no Kafka broker")) == 1, waited.log.read_text()
        assert len(waited.lines("goes on")) == 1
        assert "Traceback" not in waited.log.read_text()


@pytest.mark.kafka
def test_topics_that_nobody_made_yet_are_waited_for(begin: Starter, tmp_path: Path, kafka_url: str) -> None:
    prefix = f"late{time.time_ns()}."
    parser = begin("run", "parser", url=kafka_url, prefix=prefix)
    parser.waits("topics are missing")
    assert not parser.ready()
    assert parser.why.startswith("waits: topics are missing"), parser.why
    assert begin("topics", "create", url=kafka_url, prefix=prefix).process.wait(60) == 0
    until(parser.ready, 60, parser.log.read_text())
    assert len(parser.lines("waiting")) == 1, parser.log.read_text()


@pytest.mark.kafka
def test_another_number_of_partitions_is_one_line_and_exit_code_2(tmp_path: Path, kafka_url: str) -> None:
    known = SETTINGS | {"HEADRACE_STREAMS__URL": kafka_url, "HEADRACE_STREAMS__PREFIX": f"parts{time.time_ns()}."}
    assert headrace("topics", "create", cwd=tmp_path, timeout=60, stdin="", **known).returncode == 0
    for command in (("topics", "create"), ("run", "storer")):
        done = headrace(*command, cwd=tmp_path, timeout=60, stdin="", **known | {"HEADRACE_STREAMS__PARTITIONS": "5"})
        assert done.returncode == 2, done
        [line] = [line for line in done.stderr.splitlines() if not line.startswith("{")]
        assert "has 2 partitions, this process was told 5" in line


def test_without_any_configuration_there_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    for command in (("run",), ("run", "storer"), ("topics", "create")):
        done = headrace(*command, cwd=tmp_path)
        assert done.returncode == 2, done
        assert len(done.stderr.splitlines()) == 1
        assert "run frontier|fetcher|parser|storer" in done.stderr or "kafka://host:port" in done.stderr
    assert list(tmp_path.iterdir()) == []
