"""Signals and exit codes, in processes of their own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace_runtime.process import exit_code
from headrace_schemas.errors import FatalError, LayoutMismatch, Unavailable, UsageError, WorkspaceBusy

HEAD = """
import asyncio, errno, os, sys, time
from headrace_runtime.logs import setup
from headrace_runtime.process import Signals, run
from headrace_schemas.errors import *
setup("human", "info", sys.stderr)
def say(word): print(word, flush=True)
"""
WAITING = """
async def main(signals):
    signals.on_reload(lambda: say("reload"))
    signals.on_dump(lambda: say("dump"))
    signals.on_dump(lambda: 1 / 0)
    say("ready")
    await signals.stop.wait()
    say(f"stopping {signals.stopped_by}")
    %s
    return 0
sys.exit(run(main))
"""


class Child:
    def __init__(self, body: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HEAD + body], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out, err


@pytest.fixture
def children() -> Iterator[list[Child]]:
    made: list[Child] = []
    yield made
    for child in made:
        if child.process.poll() is None:
            child.process.kill()
            child.process.communicate()


def test_sigterm_is_a_graceful_end(children: list[Child]) -> None:
    children.append(child := Child(WAITING % "await asyncio.sleep(0.05); say('drained')"))
    assert child.line() == "ready"
    child.send(signal.SIGTERM)
    assert child.end() == (0, "stopping 15\ndrained\n", "")


def test_sigint_is_graceful_too_and_says_130(children: list[Child]) -> None:
    children.append(child := Child(WAITING % "say('drained')"))
    assert child.line() == "ready"
    child.send(signal.SIGINT)
    assert child.end() == (130, "stopping 2\ndrained\n", "")


@pytest.mark.parametrize("stuck", ["await asyncio.sleep(60)", "time.sleep(60)"])
def test_a_second_sigint_leaves_at_once_even_if_the_loop_is_stuck(children: list[Child], stuck: str) -> None:
    children.append(child := Child(WAITING % stuck))
    assert child.line() == "ready"
    child.send(signal.SIGINT)
    assert child.line() == "stopping 2"
    child.send(signal.SIGINT)
    assert child.end() == (130, "", "headrace: interrupted twice, leaving at once\n")


def test_sighup_and_sigusr1_call_back_and_the_process_goes_on(children: list[Child]) -> None:
    children.append(child := Child(WAITING % "pass"))
    assert child.line() == "ready"
    child.send(signal.SIGHUP)
    assert child.line() == "reload"
    child.send(signal.SIGUSR1)
    assert child.line() == "dump"
    child.send(signal.SIGTERM)
    code, _, err = child.end()
    assert code == 0
    assert "signal callback failed" in err  # the second callback raised: said, and survived
    assert "ZeroDivisionError" in err


@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        ("UsageError('no seeds')", 2, "headrace: no seeds\n"),
        ("WorkspaceBusy('held\\nby \\x1b[31mme')", 1, "headrace: held by \\x1b[31mme\n"),
        ("Unavailable('no broker')", 1, "headrace: no broker\n"),
        ("ExceptionGroup('', [ValueError('x'), ExceptionGroup('', [Fenced('zombie')])])", 1, "headrace: zombie\n"),
        ("OSError(errno.ENOSPC, 'No space left', '/data/x')", 1, "headrace: disk full: "),
        ("OSError(errno.EROFS, 'Read-only file system', '/data/x')", 1, "headrace: /data/x: Read-only file system\n"),
        ("PermissionError(errno.EACCES, 'Permission denied', '/x')", 1, "headrace: /x: Permission denied\n"),
        ("NotADirectoryError(errno.ENOTDIR, 'Not a directory', '/x')", 1, "headrace: /x: Not a directory\n"),
        ("KeyboardInterrupt()", 130, ""),
        ("SystemExit(3)", 3, ""),
    ],
)
def test_an_error_we_know_is_one_line_and_a_code(children: list[Child], raised: str, code: int, line: str) -> None:
    children.append(child := Child(f"async def main(signals): raise {raised}\nsys.exit(run(main))"))
    found, out, err = child.end()
    assert (found, out) == (code, "")
    assert err.startswith(line)
    assert err.count("\n") == (1 if line else 0)


def test_an_error_we_do_not_know_is_a_traceback_in_the_log(children: list[Child]) -> None:
    children.append(child := Child("async def main(signals): return {}['lost']\nsys.exit(run(main))"))
    code, _, err = child.end()
    assert code == 1
    assert "process  unexpected error\n    Traceback" in err
    assert err.endswith("headrace: unexpected KeyError: 'lost'\n")


def test_the_code_that_main_returns_is_the_code(children: list[Child]) -> None:
    children.append(child := Child("async def main(signals): return 7\nsys.exit(run(main))"))
    assert child.end() == (7, "", "")


def test_handlers_are_put_back(children: list[Child]) -> None:
    body = """
import signal
signal.signal(signal.SIGHUP, signal.SIG_IGN)
before = [signal.getsignal(n) for n in (1, 2, 10, 15)]
async def main(signals):
    os.kill(os.getpid(), signal.SIGINT)
    await signals.stop.wait()
    return 0
assert run(main) == 130
assert [signal.getsignal(n) for n in (1, 2, 10, 15)] == before, before
"""
    children.append(child := Child(body))
    assert child.end() == (0, "", "")


def test_it_runs_without_uvloop_as_well(children: list[Child]) -> None:
    children.append(
        child := Child("sys.modules['uvloop'] = None\n" + WAITING % "say(type(asyncio.get_running_loop()).__module__)")
    )
    assert child.line() == "ready"
    child.send(signal.SIGINT)
    code, out, _ = child.end()
    assert code == 130
    assert "uvloop" not in out


def test_a_stderr_that_is_gone_changes_no_exit_code(tmp_path: Path) -> None:
    body = HEAD + "async def main(signals): raise UsageError('x')\nsys.exit(run(main))"
    read, write = os.pipe()
    os.close(read)
    process = subprocess.Popen([sys.executable, "-c", body], stderr=write)
    os.close(write)
    assert process.wait(timeout=30) in (2, 120)  # 120: the interpreter's own, when it cannot flush


def test_exit_codes() -> None:
    assert exit_code(UsageError("x")) == exit_code(LayoutMismatch("x")) == 2
    assert exit_code(FatalError("x")) == exit_code(Unavailable("x")) == exit_code(WorkspaceBusy("x")) == 1
    assert exit_code(KeyError("x")) == 1
    assert exit_code(KeyboardInterrupt()) == 130
    assert exit_code(ExceptionGroup("", [KeyError("x"), UsageError("y")])) == 2


def test_a_process_takes_all_the_descriptors_it_may_have(children: list[Child]) -> None:
    """Connections are what we need them for, and the usual soft limit is for other programs."""
    child = Child(
        "import resource as r\n"
        "r.setrlimit(r.RLIMIT_NOFILE, (200, 300))\n"
        "async def main(signals):\n"
        "    say(r.getrlimit(r.RLIMIT_NOFILE))\n"
        "    return 0\n"
        "sys.exit(run(main))\n"
    )
    children.append(child)
    assert child.end()[:2] == (0, "(300, 300)\n")
