"""The cases, each run in a process of its own (`__main__`), so that memory and caches are its alone."""

import asyncio
import cProfile
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.figures import Figure, memory, number
from benchmarks.frontier.disk import seen_bytes, state_bytes
from benchmarks.frontier.links import PER_RECORD, Web, link
from benchmarks.frontier.rig import Rig, Spent, settled
from headrace_schemas.messages import Link
from headrace_schemas.urls import host_of

ROUNDS = 3
BIG = host_of(link(-1, 0).url)
FILL = 200_000
"""Links appended at once while filling: what waits in the log is memory too."""


class Case:
    """What the flags said."""

    def __init__(self, folder: Path, links: int, releases: int, profile: Path | None) -> None:
        self.folder, self.links, self.releases, self.profile = folder, links, releases, profile

    @contextmanager
    def profiled(self, name: str) -> Iterator[None]:
        if self.profile is None:
            yield
            return
        profiler = cProfile.Profile()
        profiler.enable()
        try:
            yield
        finally:
            profiler.disable()
            profiler.dump_stats(self.profile / f"{name}.prof")


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ---- ingest --------------------------------------------------------------------------------------


async def fill(rig: Rig, web: Web, known: int) -> Spent:
    """Through the handler, as new links of a crawl that is paused: no shortcut, so that the state is the real one."""
    spent = Spent()
    while web.known < known:
        await rig.find(web.new(min(FILL, known - web.known)))
        await rig.read_all(spent)
    await settled(rig)
    return spent


async def ingest(case: Case, sizes: list[int]) -> list[Figure]:
    """Links per CPU-second at each size; one database that grows."""
    figures: list[Figure] = []
    rig, web, first = await Rig.open(case.folder), Web(1_000), 0.0
    for size in sizes:
        before = web.known
        filled = await fill(rig, web, size)
        say(f"  filled to {size:,} in {filled.wall:.0f} s, {filled.each(size - before)}")
        rates: dict[str, list[float]] = {"anywhere": [], "mostly menus": []}
        for _ in range(ROUNDS):  # in turn, so that a compaction under way is nobody's in particular
            for name, near in (("anywhere", 0.0), ("mostly menus", 0.8)):
                spent = Spent()
                with case.profiled(f"ingest-{size}-{name.split()[-1]}"):
                    count = await rig.find(web.found(case.links // ROUNDS, 0.95, near))
                    await rig.read_all(spent)
                rates[name].append(spent.rate(count))
        for name, several in rates.items():
            rate = median(several)
            note = f"{1e6 / rate:.1f} µs each; {number(min(several))} to {number(max(several))}"
            bar = ">= 80000" if name == "anywhere" else ""
            case_ = f"{number(size)} known, {name}"
            figures.append(Figure("ingest, 95 % duplicates", case_, rate, "links/CPU-s", bar, note))
        worst = median(rates["anywhere"])
        first = first or worst
        if worst != first:
            figures.append(
                Figure("ingest", f"{number(size)} known", first / worst, "× the cost at the first", "<= 1.5")
            )
        figures.append(Figure("ingest", f"{number(size)} known", memory(), "MB RSS", "<= 600"))
        figures.append(
            Figure(
                "fill, all new",
                f"{number(size)} known",
                filled.rate(size - before),
                "links/CPU-s",
                note=f"from {number(before)}",
            )
        )
    for name, done in (("settled", True), ("queued", False)):
        each = seen_bytes(rig.database, case.folder, settled=done)
        figures.append(Figure("seen entry", f"{name}, compacted", each, "B on disk", "<= 40"))
    before, after = state_bytes(rig.database)
    for name, size in (("as it lies", before), ("compacted", after)):
        figures.append(Figure("whole state", name, size / web.known, "B per known URL", note="queues and all"))
    await rig.close()
    return figures


# ---- release -------------------------------------------------------------------------------------


async def released(rig: Rig, case: Case, name: str, queued: int) -> list[Figure]:
    """Release alone, settling alone, and both in one unit as in a running crawl."""
    release, settle, both = Spent(), Spent(), Spent()
    tasks = results = pages = 0
    wanted = min(case.releases, queued // 4)  # so that no queue runs dry: its last URLs cost more
    with case.profiled(f"release-{name}"):
        while tasks < wanted:
            rig.desired.mode("running")
            tasks += await rig.release(release)
            results += await rig.answer()
            rig.desired.mode("paused")
            await rig.read_all(settle)
    rig.desired.mode("running")
    await rig.release(Spent())
    while pages < wanted and (answered := await rig.answer()):
        with both.counting():
            while any(await rig.turn()):
                pass
        pages += answered
    return [
        Figure("release", f"{name}: release alone", release.rate(tasks), "URLs/CPU-s", ">= 10000", release.each(tasks)),
        Figure("release", f"{name}: settle alone", settle.rate(results), "URLs/CPU-s", note=settle.each(results)),
        Figure("release", f"{name}: both in one unit", both.rate(pages), "URLs/CPU-s", note=both.each(pages)),
    ]


async def release(case: Case, hosts: int, each: int) -> list[Figure]:
    rig, web = await Rig.open(case.folder), Web(hosts)
    await fill(rig, web, hosts * each)
    await rig.learn_robots()
    await settled(rig)
    name = f"{number(hosts)} hosts × {number(each)}"
    figures = await released(rig, case, name, hosts * each)
    figures.append(Figure("release", name, memory(), "MB RSS"))
    await rig.close()
    return figures


async def big_host(case: Case, queued: int) -> list[Figure]:
    """What the others cost: alone, beside one host of `queued` URLs, and with as many URLs spread over themselves.

    The last is no part of the bar: it tells what comes of the one host from what comes of a larger database.
    """
    base = 2 * case.releases + 10_000  # none of the others may run dry
    rigs = {name: await Rig.open(case.folder / name) for name in ("alone", "beside", "spread")}
    for name, rig in rigs.items():
        await fill(rig, Web(1_000), base + (queued if name == "spread" else 0))
        await rig.learn_robots()
    for start in range(0, queued, FILL):
        await rigs["beside"].find(_of_one_host(start, min(queued, start + FILL)))
        await rigs["beside"].read_all(Spent())
    rates: dict[str, list[float]] = {name: [] for name in rigs}
    for round_ in range(1 + ROUNDS):  # windows start at one and grow: the first is not part of what is compared
        for name, rig in rigs.items():
            await settled(rig)
            rate = await _rate(rig, case)
            if round_:
                rates[name].append(rate)
    own = rigs["beside"].answered[BIG]
    for rig in rigs.values():
        await rig.close()
    alone, beside, spread = (median(rates[name]) for name in ("alone", "beside", "spread"))
    wide = {name: f"{number(min(several))} to {number(max(several))}" for name, several in rates.items()}
    group, many = "one big host", number(queued)
    return [
        Figure(group, "the others alone", alone, "URLs/CPU-s", note=wide["alone"]),
        Figure(group, f"the others beside {many} of one", beside, "URLs/CPU-s", note=wide["beside"]),
        Figure(group, f"{many} more, spread over them", spread, "URLs/CPU-s", note=wide["spread"]),
        Figure(group, "against the others alone", 100 * (alone / beside - 1), "%", "< 5", f"its own {own:,} URLs too"),
        Figure(group, "against as many, spread", 100 * (spread / beside - 1), "%", note="databases of one size"),
    ]


def _of_one_host(start: int, stop: int) -> Iterator[list[Link]]:
    for at in range(start, stop, PER_RECORD):
        yield [link(-1, page) for page in range(at, min(stop, at + PER_RECORD))]


async def _rate(rig: Rig, case: Case) -> float:
    """URLs of the other hosts per CPU-second, settling counted too."""
    spent, before = Spent(), _others(rig)
    rig.desired.mode("running")
    while _others(rig) - before < case.releases // 3 and await rig.release(spent):
        await rig.answer()
        rig.desired.mode("paused")
        await rig.read_all(spent)
        rig.desired.mode("running")
    rig.desired.mode("paused")
    return spent.rate(_others(rig) - before)


def _others(rig: Rig) -> int:
    return rig.answered.total() - rig.answered[BIG]


# ---- restart -------------------------------------------------------------------------------------


def restart(case: Case, queued: int) -> list[Figure]:
    """A process with `queued` URLs is killed; another one starts on what it left."""
    child = [sys.executable, "-m", "benchmarks.frontier.child", str(case.folder)]
    with subprocess.Popen([*child, "hold", str(queued)], stdout=subprocess.PIPE, text=True) as holding:
        assert holding.stdout is not None
        if holding.stdout.readline().strip() != "holding":
            raise RuntimeError("the process to be killed did not get ready")
        os.kill(holding.pid, signal.SIGKILL)
    took = []
    for _ in range(3):
        copy = case.folder.with_name(case.folder.name + "-copy")
        shutil.copytree(case.folder, copy)
        started = time.perf_counter()
        again = [sys.executable, "-m", "benchmarks.frontier.child", str(copy), "first"]
        with subprocess.Popen(again, stdout=subprocess.PIPE, text=True) as first:
            assert first.stdout is not None
            line = first.stdout.readline()
            took.append(time.perf_counter() - started)
        shutil.rmtree(copy)
        if not line.startswith("released "):
            raise RuntimeError("the restarted process released nothing")
    note = f"of three: {', '.join(f'{one:.2f}' for one in sorted(took))}; Python's start counted"
    return [
        Figure("restart after SIGKILL", f"{number(queued)} queued", sorted(took)[1], "s to first release", "<= 2", note)
    ]


async def hold(folder: Path, queued: int) -> None:
    rig = await Rig.open(folder)
    web = Web(1_000)
    await fill(rig, web, queued)
    await rig.learn_robots()
    rig.desired.mode("running")
    await rig.turn(0)
    print("holding", flush=True)
    await asyncio.sleep(600)


async def first(folder: Path) -> None:
    rig = await Rig.open(folder)
    rig.desired.mode("running")
    await rig.answer()
    while True:
        _, released = await rig.turn()
        if released:
            break
    print(f"released {released}", flush=True)
    await rig.close()
