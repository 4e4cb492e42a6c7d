"""Killed around each write of the desired state, a crawl started again is neither short nor falsely complete."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import WebSpec
from tests.e2e.crawls import LOOPBACK, Crawler, check_exact
from tests.headrace_command import environment

CHILD = """
import functools, os, signal, sys
from headrace.desired import Desired
from headrace.seeding import Seeder
from headrace.cli import main

owner, name, when = sys.argv.pop(1).split(".")
owner = {"Desired": Desired, "Seeder": Seeder}[owner]
step = getattr(owner, name)

@functools.wraps(step)
async def killed(*args):
    if when == "after":
        await step(*args)
    os.kill(os.getpid(), signal.SIGKILL)

setattr(owner, name, killed)
main()
"""


@pytest.mark.parametrize("step", ["Desired.begin", "Seeder.seeds", "Desired.seeded", "Desired.completed"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_around_a_write_of_the_desired_state(tmp_path: Path, step: str, when: str) -> None:
    with RunningWeb(WebSpec(hosts=3, pages=6)) as web:
        crawler = Crawler(tmp_path)
        crawl = ["crawl", *web.seeds(), "--workspace", str(crawler.workspace), *LOOPBACK, "--delay", "0"]
        child = [sys.executable, "-c", CHILD, f"{step}.{when}", *crawl]
        done = subprocess.run(child, cwd=tmp_path, env=environment(), capture_output=True, timeout=60, check=False)
        assert done.returncode == -signal.SIGKILL, done.stderr
        if step != "Desired.completed":
            assert crawler.status()["complete"] is False
        assert crawler.crawl(web.seeds(), "--delay", "0") == 0, crawler.tail()
        check_exact(web, crawler.rows(), crawler.workspace)
        asked = [(request.ip, request.path) for request in web.requests()]
        assert len(asked) == len(set(asked))
