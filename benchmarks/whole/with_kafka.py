"""The same services as a fleet, a process of each, on a real local broker; the broker's CPU is shown beside theirs."""

import asyncio
import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from benchmarks.whole.measure import Watch, ended, on_disk, reap, start
from benchmarks.whole.runs import PATIENCE, Arena, Outcome
from benchmarks.whole.stored import HEADRACE, environment, problems
from deploy.kafka.broker import Broker
from headrace.compose import opened
from headrace.planting import plant
from headrace.workspace import Workspace
from headrace_schemas.settings import Settings

SERVICES = ("frontier", "fetcher", "parser", "storer")
PARTITIONS = 4
"""More than one, so that the flow is what it is in a fleet; few, since one process of each service has them all."""
BROKER = "broker"
START = 60.0  # seconds until every service answers that it is ready
END = 30.0  # seconds to stop in


class Broken(Exception):
    """One line that says what ended the run."""


class Kafka:
    """`broker` runs already; each crawl has topics of its own there."""

    name = "headrace on Kafka"

    def __init__(self, broker: Broker, home: Path, core: set[int]) -> None:
        """`home`: where it keeps its log. `core`: its own, all its threads moved there."""
        assert broker.process is not None
        self._url, self._home, self._pid = broker.url, home, broker.process.pid
        for thread in os.listdir(f"/proc/{self._pid}/task"):
            os.sched_setaffinity(int(thread), core)

    def crawl(self, arena: Arena, folder: Path, cores: set[int]) -> Outcome:
        workspace, prefix = folder / "ws", f"b{uuid.uuid4().hex[:8]}."
        streams = {"url": self._url, "prefix": prefix, "partitions": PARTITIONS}
        env = environment(
            workspace, **{f"HEADRACE_STREAMS__{name.upper()}": str(value) for name, value in streams.items()}
        )
        settings = msgspec.convert(
            {
                "contact": "bench@example.org",
                "scope": {"mode": "all"},
                "fetch": {"allow_private": ["127.0.0.0/8"]},
                "politeness": {"delay": 0.0},
                "streams": streams,
            },
            Settings,
        )
        made = [HEADRACE, "topics", "create"]
        subprocess.run(made, cwd=folder, env=env, check=True, capture_output=True)
        wrong = []
        before = on_disk(self._home)
        with _fleet(folder, env, cores) as fleet:
            roots = {name: process.pid for name, process in fleet.items()} | {BROKER: self._pid}
            with Watch(roots, arena.web.log, beside=[BROKER]) as watch:
                try:
                    _wait_ready(fleet, folder)
                    asyncio.run(_seed_and_wait(arena, settings, Workspace(workspace), fleet))
                except (Broken, TimeoutError) as error:
                    wrong.append(str(error) or f"not done after {PATIENCE:g} s")
                spent = watch.spent()
            wrong += _stop(fleet)
        note = f"broker: {(on_disk(self._home) - before) / 1e6:,.0f} MB on disk more"
        wrong += problems(arena.wanted, workspace, env)
        return Outcome(spent=spent, stored=on_disk(workspace), beside=(BROKER,), note=note, problems=tuple(wrong))


@contextmanager
def _fleet(folder: Path, env: dict[str, str], cores: set[int]) -> Iterator[dict[str, "subprocess.Popen[bytes]"]]:
    fleet: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in SERVICES:
            log = folder / f"{name}.log"
            fleet[name] = start([HEADRACE, "run", name], cores=cores, cwd=folder, log=log, env=env)
        yield fleet
    finally:
        for process in fleet.values():
            reap(process)


def _wait_ready(fleet: dict[str, "subprocess.Popen[bytes]"], folder: Path) -> None:
    """Until then it is start-up, which a long crawl does not notice."""
    end = time.monotonic() + START
    for name, process in fleet.items():
        while not _ready(folder / f"{name}.log"):
            if process.poll() is not None or time.monotonic() > end:
                raise Broken(f"{name} did not start: {_tail(folder / f'{name}.log')}")
            time.sleep(0.1)


def _ready(log: Path) -> bool:
    address = next((json.loads(line)["address"] for line in log.read_text().splitlines() if '"address"' in line), "")
    try:
        return bool(address) and urllib.request.urlopen(f"http://{address}/readyz", timeout=2).status == 200
    except (urllib.error.URLError, OSError):
        return False


async def _seed_and_wait(
    arena: Arena, settings: Settings, workspace: Workspace, fleet: dict[str, "subprocess.Popen[bytes]"]
) -> None:
    """Looked at seldom while pages are missing, then closely: the looks cost the broker."""
    before, wanted = _lines(arena.web.log), len(arena.wanted)
    async with asyncio.timeout(PATIENCE), opened(settings, workspace, create=True) as crawl:
        await plant(crawl, settings, workspace, [arena.seed])
        while not (await crawl.scanner.twice(0.1))[0]:
            for name, process in fleet.items():
                if process.poll() is not None:
                    raise Broken(f"{name} ended with code {process.returncode} before the crawl was complete")
            await asyncio.sleep(0.1 if _lines(arena.web.log) - before >= wanted else 1.0)


def _stop(fleet: dict[str, "subprocess.Popen[bytes]"]) -> Iterator[str]:
    for process in fleet.values():
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
    for name, process in fleet.items():
        if process.returncode is None and not ended(process, END):
            yield f"{name} did not stop"
        elif code := process.wait():
            yield f"{name} ended with code {code}"


def _lines(log: Path) -> int:
    return log.read_bytes().count(b"\n")


def _tail(log: Path) -> str:
    return log.read_text(errors="replace").strip()[-500:]
