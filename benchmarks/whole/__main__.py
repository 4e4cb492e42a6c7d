"""`python -m benchmarks.whole`: every crawler on the same web, one after the other, and the table."""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec.structs import replace

from benchmarks.figures import Figure, grid, headline, machine, table, write
from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import WebSpec
from benchmarks.whole import compare, stages
from benchmarks.whole.embedded import Embedded
from benchmarks.whole.plot import plot
from benchmarks.whole.runs import Arena, Crawler, Run, run
from benchmarks.whole.with_colly import CannotBuild, Colly
from benchmarks.whole.with_kafka import Kafka
from benchmarks.whole.with_scrapy import Scrapy
from deploy.kafka.broker import Broker
from deploy.kafka.jars import CannotRun

SIZES = {"3 KB": WebSpec(size=3_000, spread=0.2), "50 KB": WebSpec(size=50_000, spread=0.9)}
"""Small pages, where what a crawler spends on any page is all of it, and typical ones (5 to 95 KB)."""
CRAWLERS = ("embedded", "kafka", "scrapy", "colly")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    print(headline(), flush=True)
    runs: list[Run] = []
    shares: dict[str, list[Figure]] = {}
    with tempfile.TemporaryDirectory(prefix="whole-") as place, ExitStack() as stack:
        folder, (web_core, core) = Path(place), _cores()
        crawlers = list(_crawlers(options, folder, web_core, stack))
        os.sched_setaffinity(0, web_core)  # what looks and judges must not share a core with what is judged
        for size in options.sizes:
            with _arena(size, options, web_core, folder) as arena:
                for number in range(options.rounds):
                    for crawler in crawlers:
                        runs.append(_told(crawler, arena, core, f"{size}-{number}-{crawler.name}"))
                    if "embedded" in options.only and web_core != core:
                        runs.append(_told(Embedded(), arena, web_core | core, f"{size}-{number}-both"))
                if "embedded" in options.only:
                    shares[size] = _sampled(arena, core, runs, options.profile)
    _show(runs, shares, options)
    return 1 if compare.failures(runs) else 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.whole")
    parser.add_argument("--only", nargs="+", choices=CRAWLERS, default=list(CRAWLERS))
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--peers", type=Path, help="Python that has Scrapy; without, nothing is compared with it")
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--pages", type=int, default=30, help="of each host")
    parser.add_argument("--rounds", type=int, default=2, help="of which the median is taken")
    parser.add_argument("--json", type=Path, help="write figures and runs there too")
    parser.add_argument("--plot", type=Path, help="write the picture there")
    parser.add_argument("--profile", type=Path, help="folder for the dearest functions of the embedded crawl, by size")
    parser.add_argument("--smoke", action="store_true", help="whether it runs at all: the figures are worthless")
    options = parser.parse_args(arguments)
    if options.smoke:
        options.hosts, options.pages, options.rounds = 4, 10, 1
    return options


def _cores() -> tuple[set[int], set[int]]:
    """For the web and what judges, and for the crawler."""
    cores = sorted(os.sched_getaffinity(0))
    return {cores[0]}, {cores[-1]}


def _crawlers(options: argparse.Namespace, folder: Path, web_core: set[int], stack: ExitStack) -> Iterator[Crawler]:
    """Those that were asked for and can be had; of the others a line says why not."""
    if "embedded" in options.only:
        yield Embedded()
    if "kafka" in options.only:
        try:
            broker = stack.enter_context(Broker())
            yield Kafka(broker, broker.home, web_core)
        except CannotRun as error:
            say(f"skipped, headrace on Kafka: {error}")
    if "scrapy" in options.only:
        if options.peers:
            yield Scrapy.of(options.peers)
        else:
            say("skipped, Scrapy: --peers names no Python that has it")
    if "colly" in options.only:
        try:
            yield Colly.built(folder)
        except CannotBuild as error:
            say(f"skipped, Colly: {error}")


@contextmanager
def _arena(size: str, options: argparse.Namespace, web_core: set[int], folder: Path) -> Iterator[Arena]:
    spec = replace(SIZES[size], hosts=options.hosts, pages=options.pages)
    with RunningWeb(spec) as web:
        os.sched_setaffinity(web.pid, web_core)
        yield Arena(web, size, web.expected(), web.url(), web_core, folder)


def _told(crawler: Crawler, arena: Arena, cores: set[int], label: str) -> Run:
    """What it stored stays until all is done: files made right after many were deleted cost several times as much."""
    say(f"{arena.size}, {crawler.name}, cores {sorted(cores)} …")
    done = run(crawler, arena, cores, label)
    said = done.failed or f"{done.rate:,.0f} pages/s, {done.per_cpu:,.0f} pages per CPU-s, {done.rss:,.0f} MB"
    say(f"    {said}")
    return done


def _sampled(arena: Arena, core: set[int], runs: list[Run], profile: Path | None) -> list[Figure]:
    """One more crawl, with samples of where its CPU goes."""
    samples = arena.folder / f"{arena.size}-samples"
    samples.mkdir()
    done = _told(Embedded(samples=samples), arena, core, f"{arena.size}-sampled")
    if done.failed:
        runs.append(done)
        return []
    found = stages.samples(samples)
    if profile:
        profile.mkdir(parents=True, exist_ok=True)
        text = [
            f"{1e6 * seconds / done.pages:8.1f} µs a page  {process:14}{name}"
            for process, name, seconds in stages.by_function(found, 60)
        ]
        (profile / f"{arena.size.replace(' ', '')}.txt").write_text("\n".join(text) + "\n")
    return stages.figures(found, arena.size, done.pages)


def _show(runs: list[Run], shares: dict[str, list[Figure]], options: argparse.Namespace) -> None:
    figures = compare.figures(runs)
    print(table(figures), "", grid(compare.rows(runs), right=compare.NUMBERS), "", sep="\n")
    if processes := compare.by_process(runs):
        print("CPU of a page by process", table(processes), "", sep="\n")
    for size, of_stages in shares.items():
        print(f"where the CPU of a page of {size} goes, embedded, by samples", table(of_stages), "", sep="\n")
    for line in compare.failures(runs):
        print(line)
    for figure in figures:
        if figure.verdict == "MISSED":
            print(
                f"MISSED: {figure.group}, {figure.case}: {figure.value:.3g} {figure.unit}, and it is to be {figure.bar}"
            )
    if options.json:
        write(
            options.json,
            [*figures, *processes, *(figure for some in shares.values() for figure in some)],
            runs=[one.as_json() for one in runs],
        )
    if options.plot:
        options.plot.write_text(plot(compare.lines(runs), _caption(options)))


def _caption(options: argparse.Namespace) -> str:
    facts, pages = machine(), options.hosts * options.pages
    return (
        f"{facts['date']}; {facts['cores']} cores ({facts['cpu']}), Python {facts['python']}; "
        f"{pages:,} pages of {options.hosts} hosts on loopback. MB: memory at the most"
    )


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
