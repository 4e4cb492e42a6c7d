"""The demo passes on what its crawl says, and a signal reaches that crawl exactly once."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = """
import signal, sys, time
told = []
signal.signal(signal.SIGINT, lambda *_: told.append(1))
print("up", flush=True)
deadline = time.monotonic() + 20
while not told and time.monotonic() < deadline:
    time.sleep(0.01)
time.sleep(0.3)  # a second signal would come about now
sys.exit(130 if len(told) == 1 else 9)
"""

PARENT = "import sys\nfrom benchmarks.web.demo import run\nsys.exit(run([sys.executable, '-c', sys.argv[1]]))"


def _run(child: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PARENT, child],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
    )


@pytest.mark.parametrize("code", [0, 1, 2])
def test_the_exit_code_of_the_crawl_is_the_demos(code: int) -> None:
    with _run(f"raise SystemExit({code})") as demo:
        assert demo.wait(20) == code


def test_a_crawl_that_was_killed_shows_as_a_shell_would_show_it() -> None:
    with _run("import os; os.kill(os.getpid(), 9)") as demo:
        assert demo.wait(20) == 137


@pytest.mark.parametrize("whole_group", [False, True])
def test_an_interrupt_reaches_the_crawl_once_and_its_exit_code_comes_back(whole_group: bool) -> None:
    with _run(CHILD) as demo:
        assert demo.stdout is not None
        assert demo.stdout.readline() == "up\n"
        if whole_group:
            os.killpg(demo.pid, signal.SIGINT)
        else:
            demo.send_signal(signal.SIGINT)
        assert demo.wait(20) == 130


def test_without_the_command_it_says_what_to_do(tmp_path: Path) -> None:
    python = tmp_path / "python"
    script = f"import sys\nsys.executable = {str(python)!r}\nfrom benchmarks.web.demo import main\nsys.exit(main())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "make install" in done.stderr
