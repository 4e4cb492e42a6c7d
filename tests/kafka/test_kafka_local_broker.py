"""`make kafka-up` and `make kafka-down`, and the jars behind them."""

import asyncio
import json
import os
import shutil
import socket
import sys
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from deploy.kafka import __main__ as command
from deploy.kafka import jars
from deploy.kafka.broker import Broker, Ports, Quorum, answers, command_of, free_ports
from deploy.kafka.nodes import Nodes
from headrace_runtime.streams.kafka.topics import create_topics, delete_topics
from headrace_runtime.streams.seams import Send
from headrace_schemas.topics import TOPICS
from tests.kafka.place import Place

_PAST_ITS_SESSION = 5.0
_OF_THE_TOPIC = 1
"""Where a setting of a topic comes from, as the protocol numbers it."""


@pytest.fixture
def ready() -> None:
    try:
        jars.java()
        jars.fetched()
    except jars.CannotRun as error:
        pytest.skip(str(error))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command on folders of its own: the one of the repository may be in use."""
    for name, value in (("HOME", tmp_path / "broker"), ("RECORD", tmp_path / "broker.json")):
        monkeypatch.setattr(command, name, value)
    return tmp_path


@pytest.mark.kafka
@pytest.mark.usefixtures("ready")
async def test_up_prints_the_address_as_its_last_line_starts_empty_each_time_and_down_leaves_nothing(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    urls, pids = [], []
    for _ in range(2):
        assert command.main(["up"]) == 0
        urls.append(capsys.readouterr().out.splitlines()[-1])
        pids.append(json.loads((cache / "broker.json").read_text())["pid"])
        brokers = [urls[-1].removeprefix("kafka://")]
        assert await delete_topics(brokers, "") == []
        assert await create_topics(brokers, "", 1, 1) == list(TOPICS)
    _reap(pids[0])
    assert "kafka.Kafka" not in command_of(pids[0]), "the first one was ended"

    assert command.main(["down"]) == 0
    _reap(pids[1])
    assert not answers(int(urls[-1].rpartition(":")[2]))
    assert not (cache / "broker").exists()
    assert command.main(["down"]) == 0


def _reap(pid: int) -> None:
    """Here the brokers are our own children."""
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.usefixtures("ready")
async def test_three_nodes_keep_three_copies_two_of_which_must_agree_and_down_leaves_nothing(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["up", "--nodes", "3"]) == 0
    url = capsys.readouterr().out.splitlines()[-1]
    brokers = url.removeprefix("kafka://").split(",")
    pids = json.loads((cache / "broker.json").read_text())["pids"]
    try:
        assert len(set(brokers)) == len(set(pids)) == 3
        assert await create_topics(brokers, "", 2, 3) == list(TOPICS)
        admin = AIOKafkaAdminClient(bootstrap_servers=brokers)
        await admin.start()
        try:
            for topic in await admin.describe_topics():
                assert all(len(partition["replicas"]) == 3 for partition in topic["partitions"]), topic["topic"]
            asked = ConfigResource(ConfigResourceType.TOPIC, "fetch.results", configs={"min.insync.replicas": None})
            (answer,) = await admin.describe_configs([asked])
            ((_, value, _, source, *_),) = answer.resources[0][4]
            assert (value, source) == ("2", _OF_THE_TOPIC), "not only by the default of these brokers"
        finally:
            await admin.close()
    finally:
        assert command.main(["down"]) == 0
    for pid in pids:
        _reap(pid)
        assert "kafka.Kafka" not in command_of(pid)
    assert not any(answers(int(broker.rpartition(":")[2])) for broker in brokers)
    assert not (cache / "broker").exists()


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.usefixtures("ready")
async def test_of_three_nodes_one_may_die_or_hang_and_come_back(tmp_path: Path) -> None:
    with Nodes(3, tmp_path / "nodes") as nodes:
        brokers = nodes.url.removeprefix("kafka://").split(",")
        await create_topics(brokers, "", 2, 3)
        place = Place(brokers, "", tmp_path)
        async with place.opened() as streams:
            nodes[1].kill()
            await streams.publish([Send("urls.to_fetch", i % 2, b"while one was dead") for i in range(20)])
            for _ in range(6):  # a process that starts now asks nodes at random, the dead one among them
                async with place.opened() as another:
                    await another.publish([])
            nodes[1].start()
            nodes[2].pause()
            while_it_hangs = [Send("urls.to_fetch", i % 2, b"while another hung") for i in range(20)]
            publishing = asyncio.create_task(streams.publish(while_it_hangs))
            await asyncio.sleep(_PAST_ITS_SESSION)
            nodes[2].pause(False)
            await publishing
            edges = await streams.edges([("urls.to_fetch", "fetcher")])
            assert sum(edge.end for edge in edges) == 40
    assert not any(answers(ports.client) for ports in nodes[1].quorum.nodes)


def test_down_ends_no_process_that_only_has_the_old_number(cache: Path) -> None:
    (cache / "broker.json").write_text(json.dumps({"pid": os.getpid(), "url": "kafka://127.0.0.1:1"}))
    assert command.main(["down"]) == 0
    assert not (cache / "broker.json").exists()


@pytest.mark.parametrize("words", ["sideways", "up --nodes", "up --nodes 0", "up --nodes many", "down --nodes 3", ""])
def test_a_wrong_verb_or_number_is_a_usage_error(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(words.split()) == 2
    assert "up [--nodes" in capsys.readouterr().err


@pytest.mark.kafka
@pytest.mark.usefixtures("ready")
def test_a_port_taken_meanwhile_is_another_port(tmp_path: Path) -> None:
    broker = Broker(tmp_path / "broker")
    taken, controller = free_ports(2)
    broker.quorum = Quorum(broker.quorum.cluster, (Ports(taken, controller),))
    with socket.create_server(("127.0.0.1", taken)):
        with broker:
            assert broker.url != f"kafka://127.0.0.1:{taken}"
            assert answers(broker.quorum.nodes[0].client)


def test_no_java_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    assert command.main(["up"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "a local Kafka needs Java 17 or newer: no `java` on the PATH\n"


def test_an_old_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(jars.CannotRun, match="is 11"):
        jars.java()


class Maven:
    """A `mvn` that does as it is told."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._path = folder / "bin" / "mvn"
        self._path.parent.mkdir()
        monkeypatch.setenv("PATH", str(self._path.parent))
        monkeypatch.setenv("HEADRACE_KAFKA_JARS", str(folder / "jars"))

    def does(self, lines: str) -> None:
        head = f"#!{sys.executable}\nimport sys, pathlib\ntarget = pathlib.Path(sys.argv[-1].partition('=')[2])\n"
        self._path.write_text(head + lines)
        self._path.chmod(0o755)


def test_half_a_download_is_never_taken_for_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    maven, folder = Maven(tmp_path, monkeypatch), tmp_path / "jars"
    fill = "target.mkdir()\n(target / 'kafka_2.13-9.jar').touch()\n"
    maven.does(fill + "sys.exit('[ERROR] the network is gone')")
    with pytest.raises(jars.CannotRun, match="the network is gone"):
        jars.fetched()
    assert not folder.exists()
    maven.does(fill)
    assert jars.fetched() == folder
    maven.does("sys.exit('it is asked only once')")
    assert jars.fetched() == folder

    monkeypatch.setattr(jars, "POM", tmp_path / "newer.xml")
    (tmp_path / "newer.xml").write_text("<project/>")
    with pytest.raises(jars.CannotRun, match="asked only once"):
        jars.fetched()
    assert not list(tmp_path.glob(".fetching-*"))


def test_jars_filled_by_hand_are_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Maven(tmp_path, monkeypatch)
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "kafka_2.13-4.3.1.jar").touch()
    assert jars.fetched() == tmp_path / "jars"


def test_no_maven_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("HEADRACE_KAFKA_JARS", str(tmp_path / "jars"))
    with pytest.raises(jars.CannotRun, match="no `mvn` on the PATH"):
        jars.fetched()


def test_the_pom_names_no_repository() -> None:
    text = jars.POM.read_text()
    assert "<repositor" not in text
    assert shutil.which("mvn") is None or "kafka_2.13" in text


def test_the_id_of_a_cluster_is_never_taken_for_an_option() -> None:
    assert not [quorum for quorum in (Quorum.free() for _ in range(500)) if quorum.cluster.startswith("-")]
