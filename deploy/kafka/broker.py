"""One KRaft node on loopback as a child process: start, stop, kill, start again on what it kept."""

import base64
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from deploy.kafka import jars
from deploy.kafka.jars import CannotRun

_TRIES = 5
_ANSWER_SECONDS = 60.0
_STOP_SECONDS = 15.0
_PORTS = range(20_000, 32_000)
"""Below the range outgoing connections take theirs from: a port stays free until the broker binds it, mostly."""

_LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c)%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


@dataclass(frozen=True)
class Ports:
    client: int
    controller: int


@dataclass(frozen=True)
class Quorum:
    """All nodes of one cluster; node n has `nodes[n - 1]`."""

    cluster: str
    nodes: tuple[Ports, ...]

    @classmethod
    def free(cls, size: int = 1) -> "Quorum":
        ports = free_ports(2 * size)
        cluster = "-"
        while cluster.startswith("-"):  # the storage tool would take it for an option
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        return cls(cluster, tuple(Ports(*ports[i : i + 2]) for i in range(0, 2 * size, 2)))


class Broker:
    """`with Broker() as broker: broker.url`. Without `home` it lives in a temporary folder that goes with it.

    Several nodes: `Nodes`.
    """

    logging = "log4j2.properties"
    """The file in `home` that says how it logs."""

    def __init__(self, home: Path | None = None, *, node: int = 1, quorum: Quorum | None = None) -> None:
        self._own = home is None
        self.home = home or Path(tempfile.mkdtemp(prefix="headrace-kafka-"))
        self.node = node
        self._fixed = quorum is not None
        self.quorum = quorum or Quorum.free()
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.quorum.nodes[self.node - 1].client}"

    @property
    def url(self) -> str:
        return f"kafka://{self.address}"

    def start(self) -> None:
        """Returns once it answers. Ports of its own choosing may be taken meanwhile: others are tried then."""
        for left in reversed(range(_TRIES)):
            self.spawn()
            try:
                self.wait()
                return
            except PortTaken:
                if self._fixed or not left:
                    raise
                self._forget()
                self.quorum = Quorum.free()

    def spawn(self) -> None:
        """Formats its folder the first time; the process outlives this one unless it is stopped."""
        java, classpath = jars.java(), f"{jars.fetched()}/*"
        config = self.home / "server.properties"
        if not config.exists():
            self._format(java, classpath, config)
        command = [java, "-Xmx384m", "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile={self.home / self.logging}"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "-cp", classpath, "kafka.Kafka", str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.home,
                start_new_session=True,
            )

    def wait(self) -> None:
        deadline = time.monotonic() + _ANSWER_SECONDS
        while not answers(self.quorum.nodes[self.node - 1].client):
            if self.process is None or self.process.poll() is not None:
                raise self._died()
            if time.monotonic() > deadline:
                self.kill()
                raise CannotRun(f"the local Kafka did not answer within {_ANSWER_SECONDS:.0f} s:\n{self._tail()}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Politely, then not; what it kept stays for the next `start` unless its folder is its own."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.pause(False)
            try:
                self.process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()
        self.process = None

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self.process = None

    def pause(self, paused: bool = True) -> None:
        """It keeps its connections and answers nothing; past its session the others go on without it."""
        if self.process is not None:
            self.process.send_signal(signal.SIGSTOP if paused else signal.SIGCONT)

    def __enter__(self) -> "Broker":
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._own:
            self.kill()
            shutil.rmtree(self.home, ignore_errors=True)
        else:
            self.stop()

    @property
    def _log(self) -> Path:
        return self.home / "server.log"

    def _format(self, java: str, classpath: str, config: Path) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / self.logging).write_text(_LOGGING)
        draft = config.with_suffix(".draft")
        draft.write_text("".join(f"{name}={value}\n" for name, value in self._settings().items()))
        command = [java, "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", classpath, "kafka.tools.StorageTool", "format"]
        command += ["--ignore-formatted", "-t", self.quorum.cluster, "-c", str(draft)]
        result = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False)
        if result.returncode != 0:
            raise CannotRun(f"could not format {self.home}: {(result.stdout + result.stderr).strip()[-500:]}")
        draft.rename(config)

    def _settings(self) -> dict[str, str | int]:
        ports, nodes = self.quorum.nodes[self.node - 1], self.quorum.nodes
        copies = min(3, len(nodes))
        return {
            "process.roles": "broker,controller",
            "node.id": self.node,
            "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{p.controller}" for n, p in enumerate(nodes, 1)),
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://127.0.0.1:{ports.client},CONTROLLER://127.0.0.1:{ports.controller}",
            "log.dirs": str(self.home / "data"),
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
            "transaction.state.log.min.isr": max(1, copies - 1),
            "min.insync.replicas": max(1, copies - 1),
            # a group that is empty for a week would forget where it was, with the default
            "offsets.retention.minutes": 365 * 24 * 60,
            "message.max.bytes": 16 << 20,
            "replica.fetch.max.bytes": 16 << 20,
            "auto.create.topics.enable": "false",
            # the rest makes it small and quick on one machine
            "group.initial.rebalance.delay.ms": 0,
            "offsets.topic.num.partitions": 4,
            "transaction.state.log.num.partitions": 4,
            "log.cleaner.dedupe.buffer.size": 16 << 20,
            "num.network.threads": 2,
            "num.io.threads": 4,
            "group.min.session.timeout.ms": 1000,
            # one that was killed may register again only after its last session (9 s by default)
            "broker.session.timeout.ms": 3000,
            "broker.heartbeat.interval.ms": 500,
        }

    def _died(self) -> CannotRun:
        text = self._log.read_text(errors="replace")
        if "Address already in use" in text or "BindException" in text:
            return PortTaken(f"port {self.address} was taken before the local Kafka could bind it")
        return CannotRun(f"the local Kafka ended at once:\n{self._tail()}")

    def _tail(self) -> str:
        return self._log.read_text(errors="replace")[-2000:].strip()

    def _forget(self) -> None:
        self.kill()
        for entry in self.home.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()


class PortTaken(CannotRun):
    """Someone else bound the port first."""


def free_ports(count: int) -> list[int]:
    found: list[int] = []
    while len(found) < count:
        port = random.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in found:
            found.append(port)
    return found


def answers(port: int, host: str = "127.0.0.1") -> bool:
    """True once it answers a request: an open port alone says little, the broker may be waiting for its quorum."""
    api_versions = struct.pack(">hhih", 18, 0, 1, -1)
    try:
        with socket.create_connection((host, port), timeout=0.5) as connection:
            connection.sendall(struct.pack(">i", len(api_versions)) + api_versions)
            answer = connection.recv(10, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(answer) == 10 and struct.unpack(">iih", answer)[1:] == (1, 0)


def command_of(pid: int) -> str:
    """Command line of a process; empty if there is none. A pid alone may by now be someone else's."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        if os.path.isdir("/proc/self"):
            return ""
    listing = subprocess.run(["ps", "-p", str(pid), "-o", "command="], capture_output=True, text=True, check=False)
    return listing.stdout
