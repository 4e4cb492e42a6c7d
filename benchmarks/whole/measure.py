"""What a tree of processes costs, read from /proc (Linux): CPU of all of it, ended children too, and its memory.

CPU is the kernel's own account of each process with the children it has waited for, summed over the tree. Memory is the
sum of what is resident, so that what two processes share counts twice.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds
PAGE = os.sysconf("SC_PAGESIZE") / 1e6  # MB
EVERY = 0.1  # seconds between two looks
SOON = 0.01  # the same until the first request


class Process(NamedTuple):
    parent: int
    session: int
    cpu: float
    """Seconds, with those of children it has waited for."""
    rss: float
    """MB; 0 once it has ended."""
    system: float
    """Of `cpu`: in the kernel."""


def processes() -> dict[int, Process]:
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit() and (process := _process(entry)):
            found[int(entry)] = process
    return found


def _process(pid: str) -> Process | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # it is no more
        return None
    fields = text.rpartition(")")[2].split()
    user, system, user_below, system_below = map(int, fields[11:15])
    cpu, system_cpu = (user + system + user_below + system_below) * TICK, (system + system_below) * TICK
    return Process(int(fields[1]), int(fields[3]), cpu, int(fields[21]) * PAGE, system_cpu)


def tree(root: int, among: Mapping[int, Process]) -> list[Process]:
    """It and all that descends from it."""
    children: dict[int, list[int]] = {}
    for pid, process in among.items():
        children.setdefault(process.parent, []).append(pid)
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        if pid in among:
            found.append(among[pid])
            todo += children.get(pid, ())
    return found


class Spent(NamedTuple):
    """Since the first request that the web saw."""

    cpu: dict[str, float]
    """By root, seconds."""
    before: float
    """CPU seconds of all of them until then: interpreters, imports, joining groups."""
    seconds: float
    rss: dict[str, float]
    """By root, MB at the most."""
    together: float
    """Of those that count, at the same moment, MB at the most."""


class Watch:
    """Looks at trees of processes from a thread of its own until it is left. `spent` may be asked at any time."""

    def __init__(self, roots: Mapping[str, int], log: Path, beside: Iterable[str] = ()) -> None:
        """`roots`: name → pid. `log`: of the web; the clock starts when it grows. `beside`: names not in `together`."""
        self._roots, self._log, self._beside = dict(roots), log, set(beside)
        self._size = log.stat().st_size
        self._zero: dict[str, float] = {}
        self._began = 0.0
        self._rss = dict.fromkeys(self._roots, 0.0)
        self._together = 0.0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ending.set()
        self._thread.join()

    def spent(self) -> Spent:
        cpu = self._look()
        before = sum(seconds for name, seconds in self._zero.items() if name not in self._beside)
        return Spent(
            {name: seconds - self._zero.get(name, 0.0) for name, seconds in cpu.items()},
            before,
            time.monotonic() - self._began if self._began else 0.0,
            dict(self._rss),
            self._together,
        )

    def _run(self) -> None:
        while not self._ending.wait(EVERY if self._began else SOON):
            if not self._began and self._log.stat().st_size > self._size:
                self._began = time.monotonic()
                self._zero = self._look()
            elif self._began:
                self._look()

    def _look(self) -> dict[str, float]:
        among = processes()
        trees = {name: tree(pid, among) for name, pid in self._roots.items()}
        rss = {name: sum(process.rss for process in found) for name, found in trees.items()}
        self._rss = {name: max(most, rss[name]) for name, most in self._rss.items()}
        self._together = max(self._together, sum(mb for name, mb in rss.items() if name not in self._beside))
        return {name: sum(process.cpu for process in found) for name, found in trees.items()}


def start(
    command: list[str], *, cores: set[int], cwd: Path, log: Path, env: dict[str, str]
) -> "subprocess.Popen[bytes]":
    """On these cores only, it and its children; in a session of its own, so that all of it can be ended."""
    with log.open("ab") as out:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )


def ended(process: "subprocess.Popen[bytes]", timeout: float) -> bool:
    """Waits for its end without reaping it: what it cost can still be read. False: it runs on."""
    end = time.monotonic() + timeout
    while not os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG):
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def reap(process: "subprocess.Popen[bytes]") -> int:
    """Ends what is left of its session, and it → how many processes that were, beside itself."""
    left = [pid for pid, other in processes().items() if other.session == process.pid and pid != process.pid]
    for pid in (*left, *([process.pid] if process.poll() is None else [])):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()
    return len(left)


def on_disk(folder: Path) -> int:
    """Bytes that all files below take, in whole blocks."""
    return sum(path.lstat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())
