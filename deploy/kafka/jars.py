"""The broker's jars: fetched once with Maven, taken only when whole."""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

POM = Path(__file__).with_name("pom.xml")
CACHE = Path(__file__).parents[2] / ".kafka"
_STAMP = "pom.sha256"
_FETCH_SECONDS = 600


class CannotRun(Exception):
    """Why there can be no local broker; one line for the user."""


def java() -> str:
    """The command of a Java 17 or newer."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if command is None or not Path(command).exists():
        raise CannotRun("a local Kafka needs Java 17 or newer: no `java` on the PATH")
    answer = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    if found is None or int(found[1]) < 17:
        raise CannotRun(f"a local Kafka needs Java 17 or newer: {command} is {found[1] if found else 'something else'}")
    return command


def fetched() -> Path:
    """The folder of the jars, filled first if it is not there. Safe to call from several processes at once."""
    folder = Path(os.environ.get("HEADRACE_KAFKA_JARS") or CACHE / "jars").absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name(folder.name + ".lock")):
        if not _whole(folder):
            _fetch(folder)
    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _whole(folder: Path) -> bool:
    """A folder that we filled says of which pom; one without that mark was filled by hand and is believed."""
    stamp = folder / _STAMP
    if stamp.exists():
        return stamp.read_text() == _fingerprint()
    return any(folder.glob("kafka_2.13-*.jar"))


def _fingerprint() -> str:
    return hashlib.sha256(POM.read_bytes()).hexdigest()


def _fetch(folder: Path) -> None:
    """Into a folder beside, renamed into place at the end: half a download is never taken for whole."""
    maven = shutil.which("mvn")
    if maven is None:
        raise CannotRun("a local Kafka is fetched with Maven: no `mvn` on the PATH (or set HEADRACE_KAFKA_JARS)")
    print(f"fetching Apache Kafka into {folder} (once)", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".fetching-") as temporary:
        target = Path(temporary, "jars")
        _run_maven([maven, "-B", "-ntp", "-q", "-f", str(POM), "dependency:copy-dependencies"], target)
        (target / _STAMP).write_text(_fingerprint())
        if folder.exists():
            shutil.rmtree(folder)
        target.rename(folder)


def _run_maven(command: list[str], target: Path) -> None:
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={target}"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise CannotRun(f"Maven did not fetch Apache Kafka within {_FETCH_SECONDS} s") from None
    if result.returncode != 0 or not any(target.glob("kafka_2.13-*.jar")):
        lines = [line for line in (result.stdout + result.stderr).splitlines() if line.strip()]
        raise CannotRun(f"Maven could not fetch Apache Kafka: {lines[0] if lines else 'it said nothing'}")
