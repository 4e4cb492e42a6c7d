"""A real PostgreSQL for tests: the one named by HEADRACE_TEST_POSTGRES, or one started here if there are programs."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from sqlalchemy import make_url


def programs() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    return Path(initdb).parent if initdb else None


class Server:
    """`url` names the server's maintenance database. PostgreSQL refuses to run as root, so it gets its own user."""

    def __init__(self, bin_folder: Path) -> None:
        self._bin = bin_folder
        self._user = "postgres" if os.geteuid() == 0 else None
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-pg-", dir="/tmp"))
        if self._user:
            shutil.chown(self.folder, self._user)
        self.url = f"postgresql://postgres@/postgres?host={self.folder}"
        self._process: subprocess.Popen[bytes] | None = None
        arguments = ["initdb", "-D", f"{self.folder}/data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]
        self._run(arguments)

    def start(self) -> None:
        if self._process is not None:
            return
        self._process = subprocess.Popen(
            [self._bin / "postgres", "-D", f"{self.folder}/data", "-k", str(self.folder), "-h", "", "-F"],
            user=self._user,
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(300):
            if self._run(["pg_isready", "-h", str(self.folder), "-q", "-t", "1"], check=False) == 0:
                return
            time.sleep(0.1)
        raise RuntimeError("PostgreSQL did not start")

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)  # fast shutdown: sessions are ended
            self._process.wait(30)
            self._process = None

    def delete(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, arguments: list[str], check: bool = True) -> int:
        command = [str(self._bin / arguments[0]), *arguments[1:]]
        done = subprocess.run(command, user=self._user, cwd=self.folder, capture_output=True, timeout=60)
        if check and done.returncode != 0:
            raise RuntimeError(done.stderr.decode())
        return done.returncode


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
