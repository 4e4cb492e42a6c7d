"""`python -m benchmarks.web.demo`, which is `make crawl` without a URL: it needs no network and bothers nobody.

The port is fixed, so that a second run finds the sites of the first in the workspace and has nothing left to do.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from urllib.parse import urlsplit

from benchmarks.web.running import RunningWeb, WebDidNotStart
from benchmarks.web.spec import Errors, Redirects, RobotsKinds, WebSpec

PORT = 8765
SPEC = WebSpec(
    hosts=6,
    pages=25,
    size=4_000,
    port=PORT,
    validators=True,
    errors=Errors(missing=0.04),
    redirects=Redirects(inside=0.06),
    robots=RobotsKinds(disallow=0.4),
)
"""A little of everything, so that the summary shows what its words mean."""


def main() -> int:
    headrace = Path(sys.executable).with_name("headrace")
    if not headrace.exists():
        print(f"there is no {headrace}: run `make install` first", file=sys.stderr)
        return 2
    try:
        return _crawl(RunningWeb(SPEC, quiet=True), headrace)
    except WebDidNotStart:
        print(f"port {PORT} is taken: the demo sites get another one, and count as new", file=sys.stderr)
    return _crawl(RunningWeb(SPEC.at(0)), headrace)


def _crawl(web: RunningWeb, headrace: Path) -> int:
    with web:
        seed = web.url()
        print(f"demo: crawling {SPEC.hosts} small sites served on loopback, from {seed}, into ./workspace", flush=True)
        # Not `--scope all`: the crawl after the demo has the same workspace.
        hosts = json.dumps([urlsplit(url).hostname for url in web.seeds(SPEC.hosts)])
        command = [str(headrace), "crawl", seed, "--workspace", "./workspace", "--set", f"scope.hosts={hosts}"]
        command += ["--delay", "0.05"]
        command += ["--allow-private", "127.0.0.0/8", "--contact", "demo@example.org"]
        return run(command)


def run(command: list[str]) -> int:
    """Runs it on our own stdin, stdout and stderr → its exit code. A Ctrl-C reaches it once, and does not end us.

    A terminal signals all of its foreground processes by itself. Without one, whoever signals us may mean us or our
    whole group: the child is kept out of the group, so that it hears of it from us alone.
    """
    terminal = os.isatty(0)
    early: list[int] = []
    child: subprocess.Popen[bytes] | None = None

    def told(number: int, frame: FrameType | None) -> None:
        if child is None:
            early.append(number)
        elif not (terminal and number == signal.SIGINT):
            child.send_signal(number)

    before = {number: signal.signal(number, told) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        child = subprocess.Popen(command, process_group=None if terminal else 0)
        for number in early:
            child.send_signal(number)
        code = child.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
