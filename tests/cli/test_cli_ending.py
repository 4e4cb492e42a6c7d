"""How a command ends when someone wants it to: Ctrl-C and SIGTERM at any moment, a reader that has had enough."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.headrace_command import HEADRACE, environment

WATCHED = """
import os, signal, sys, threading, time
from headrace.cli import main
number, module = int(sys.argv.pop(1)), sys.argv.pop(1)

def strike():
    while module not in sys.modules:
        time.sleep(0.001)
    os.kill(os.getpid(), number)

threading.Thread(target=strike, daemon=True).start()
main()
"""
SEED = "http://127.0.0.1:1/"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("module", ["typer", "headrace.app", "headrace.crawl"])
def test_a_signal_while_the_program_is_still_loading_ends_it_as_an_interrupted_one(
    tmp_path: Path, number: signal.Signals, module: str
) -> None:
    python = str(Path(HEADRACE).with_name("python"))
    done = subprocess.run(
        [python, "-c", WATCHED, str(int(number)), module, "crawl", SEED, "--workspace", str(tmp_path / "ws")],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (130, False), done.stderr


MUCH = ["policy", "check", *["https://example.org/"] * 5000]


@pytest.mark.parametrize("words", [["--help"], ["config", "show"], MUCH])
def test_a_reader_that_has_had_enough_is_no_failure(tmp_path: Path, words: list[str]) -> None:
    """With little output it shows at the last flush, with much of it in the middle."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [HEADRACE, *words],
            cwd=tmp_path,
            env=environment(),
            stdout=writing,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


def test_output_that_was_closed_from_the_start_is_no_failure(tmp_path: Path) -> None:
    done = subprocess.run(
        f'"{HEADRACE}" config show >&-',
        shell=True,
        cwd=tmp_path,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
