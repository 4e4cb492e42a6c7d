"""Processes that can be killed, paused and started again by name, and that are all gone at the end."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

from deploy.kafka.broker import Broker

_END_SECONDS = 30.0
_UNDER_WAY = 3.0
"""Seconds after its start from which a process may be asked to stop."""
_GONE_SECONDS = 5.0
"""Workers notice that their parent is gone; this is how long they may take."""


class Target(Protocol):
    """What faults are done to: a process of the crawl, or a broker."""

    name: str

    def start(self) -> None: ...
    def kill(self) -> None: ...
    def pause(self, paused: bool) -> None: ...
    def ended(self) -> int | None:
        """Its exit code, if it ended by itself."""

    def ready(self) -> bool:
        """Whether the next fault may be done to it."""

    def tail(self) -> str:
        """The last it said."""


class Process:
    """In a session of its own, so that whatever it starts can be found again. A kill is of this process alone: what it
    started has to notice.

    `whole`: of all of them at once. `gently`: not a kill but a Ctrl-C, once it is well under way.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        *,
        whole: bool = False,
        gently: bool = False,
    ) -> None:
        self.name, self.groups = name, set[int]()
        self._command, self._environment, self._folder = list(command), environment, folder
        self._whole, self._gently = whole, gently
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0.0
        self.log = folder / f"{name.replace(' ', '-')}.log"

    def start(self) -> None:
        with self.log.open("ab") as out:
            out.write(f"---- started at {time.monotonic():.2f}\n".encode())
            out.flush()
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=dict(self._environment),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._began = time.monotonic()
        self.groups.add(self._process.pid)

    def kill(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if self._gently:
            process.send_signal(signal.SIGINT)
            _wait(process)
        if self._whole:
            _signal_group(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()

    def pause(self, paused: bool) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP if paused else signal.SIGCONT)

    def ended(self) -> int | None:
        return self._process.poll() if self._process is not None else None

    def ready(self) -> bool:
        if self._gently and time.monotonic() < self._began + _UNDER_WAY:
            return False
        return self._process is not None and self._process.poll() is None

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-1_500:].strip() if self.log.exists() else ""

    def replace(self) -> int | None:
        """As an operator does who upgrades: asked to end, waited for, started again. → the exit code; None: it had to
        be killed."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.terminate()
        _wait(process)
        code = process.poll()
        process.kill()
        process.wait()
        self.start()
        return code

    def ask_to_end(self) -> None:
        """As an operator does."""
        if self._process is not None:
            self._process.terminate()
            self.pause(False)

    def end(self) -> None:
        """Within a bound."""
        process, self._process = self._process, None
        if process is not None:
            _wait(process)
            process.kill()
            process.wait()


class Node:
    """A broker as a target. `in_sync`: whether all copies are what they should be; one broker at a time is away."""

    def __init__(self, broker: Broker, in_sync: Callable[[], bool]) -> None:
        self.name, self._broker, self._in_sync = f"broker {broker.node}", broker, in_sync

    def start(self) -> None:
        self._broker.spawn()

    def kill(self) -> None:
        self._broker.kill()

    def pause(self, paused: bool) -> None:
        self._broker.pause(paused)

    def ended(self) -> int | None:
        process = self._broker.process
        return process.poll() if process is not None else None

    def ready(self) -> bool:
        return self._broker.process is not None and self.ended() is None and self._in_sync()

    def tail(self) -> str:
        return (self._broker.home / "server.log").read_text(errors="replace")[-1_500:].strip()


class Fleet:
    """The processes of one crawl. Whatever is left of them at the end is counted, and killed."""

    def __init__(self, processes: Sequence[Process]) -> None:
        self.processes = list(processes)
        self.left = 0
        """Processes that outlived those that started them."""

    def __enter__(self) -> "Fleet":
        for process in self.processes:
            process.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.end()

    def end(self) -> None:
        for process in self.processes:
            process.ask_to_end()
        for process in self.processes:
            process.end()
        groups = {group for process in self.processes for group in process.groups}
        deadline = time.monotonic() + _GONE_SECONDS
        while (left := _of_groups(groups)) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.left += len(left)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def _wait(process: "subprocess.Popen[bytes]") -> None:
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        pass


def _of_groups(groups: set[int]) -> list[int]:
    """Living processes of these groups (Linux)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) in groups and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def _signal_group(group: int, number: signal.Signals) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        pass
