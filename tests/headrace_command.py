"""The `headrace` command as a user types it, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

HEADRACE = str(Path(sys.executable).with_name("headrace"))


def environment(**extra: str) -> dict[str, str]:
    """Ours without any HEADRACE_ setting that a developer's shell may hold."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    return clean | extra


def headrace(
    *args: str, cwd: Path, timeout: float = 60, stdin: str = "", **extra: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [HEADRACE, *args],
        cwd=cwd,
        env=environment(**extra),
        capture_output=True,
        text=True,
        timeout=timeout,
        input=stdin,
        check=False,
    )


def start(*args: str, cwd: Path, log: Path, **extra: str) -> "subprocess.Popen[bytes]":
    """In a session of its own, so that a test can kill all of it; output goes to `log`."""
    with log.open("ab") as out:
        return subprocess.Popen(
            [HEADRACE, *args],
            cwd=cwd,
            env=environment(**extra),
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
