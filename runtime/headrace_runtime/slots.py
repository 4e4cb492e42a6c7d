"""A process's place among its like: the folder of its state, and the name its group knows it by.

A killed process leaves its slot to whoever starts next, so that the next one finds the state where it was and takes its
partitions over at once, instead of after a session timeout.
"""

import errno
import fcntl
import itertools
import os
import re
import secrets
from contextlib import suppress
from pathlib import Path

from headrace_schemas.errors import UsageError, WorkspaceBusy

_MOST = 1_024  # slots of one service on one disk
_INSTANCE = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")


class Slot:
    """Held by a file lock for the life of the process, however that ends."""

    def __init__(self, path: Path, lock: int, workspace: str) -> None:
        self.path, self._workspace = path, workspace
        self._lock: int | None = lock

    @property
    def instance(self) -> str:
        """Unique within the workspace, and the same after a restart."""
        return self.path.name

    @property
    def member(self) -> str:
        """Unique among all workspaces, and the same after a restart: others may share our brokers."""
        return f"{self.instance}-{self._workspace}"

    def release(self) -> None:
        """Twice is once."""
        if self._lock is not None:
            fcntl.flock(self._lock, fcntl.LOCK_UN)  # a forked child shares the lock: closing our end would not do
            os.close(self._lock)
            self._lock = None


def claim(workspace: Path, service: str, instance: str = "") -> Slot:
    """The first free slot, or the one named; `WorkspaceBusy` if that is held."""
    state = workspace / "state"
    if instance:
        return _named(state, service, instance)
    for number in itertools.count():
        if number >= _MOST:
            raise WorkspaceBusy(f"all {_MOST} slots of {service} in {state} are held")
        slot = _try(state / f"{service}-{number}")
        if slot is not None:
            return slot
    raise AssertionError("unreachable")


def _named(state: Path, service: str, instance: str) -> Slot:
    if not _INSTANCE.fullmatch(instance):
        raise UsageError(f"streams.instance is {instance!r}; allowed: letters, digits, dot, dash and underscore")
    path = state / f"{service}-{instance}"
    slot = _try(path)
    if slot is None:
        raise WorkspaceBusy(f"{path} is held by {_holder(path)}; two processes cannot be the same instance")
    return slot


def _try(path: Path) -> Slot | None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        workspace = _workspace(path.parent)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise  # that is no mistake
        raise UsageError(f"cannot keep state in {path}: {error.strerror}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    with suppress(OSError):  # only told to people: a full disk is waited for elsewhere
        os.truncate(lock, 0)
        os.pwrite(lock, b"%d\n" % os.getpid(), 0)
    return Slot(path, lock, workspace)


def _workspace(state: Path) -> str:
    """A random word for the workspace, made once by whoever comes first, and kept with the state."""
    file = os.open(state / "id", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        known = os.read(file, 100).decode("ascii", "replace").strip()
        if not _INSTANCE.fullmatch(known):
            known = secrets.token_hex(8)
            os.truncate(file, 0)
            os.pwrite(file, f"{known}\n".encode(), 0)
            os.fsync(file)
        return known
    finally:
        os.close(file)


def _holder(path: Path) -> str:
    try:
        pid = (path / "lock").read_text().strip()
    except OSError:
        pid = ""
    return f"process {pid}" if pid.isdigit() else "another process"
