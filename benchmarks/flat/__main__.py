"""`python -m benchmarks.flat`: one crawl of a large web of small pages, sampled to its end, and judged."""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import astuple

from benchmarks.figures import Figure, headline, table, write
from benchmarks.flat import windows
from benchmarks.flat.judge import asked, on_disk, problems
from benchmarks.flat.samples import Sample, Sampler
from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import WebSpec
from benchmarks.whole.measure import ended, reap, start
from benchmarks.whole.stored import HEADRACE, environment

SIZE, SPREAD = 2_000, 0.5  # bytes of a page: 1 to 3 KB
HOSTS, OF_HOST = 500, 4_000
"""As many hosts, unless they would have fewer than 20 pages each, or more than `OF_HOST` (a depth limit of ten)."""
SLOWEST = 50.0  # pages a second; a crawl that takes longer is given up
DISK, INODES = 10_000, 1.3  # for each page, with room to spare: bytes and files


class Crawl(Struct):
    samples: list[Sample]
    pages: int
    """That the web served, different ones."""
    again: int
    """Requests for a page that had been asked for before."""
    failed: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    print(headline(), flush=True)
    spec = web_of(options.pages)
    pages = spec.hosts * spec.pages
    folder = Path(tempfile.mkdtemp(prefix="flat-", dir=options.folder))
    try:
        if short := _too_small(folder, pages):
            say(short)
            return 2
        with RunningWeb(spec, folder=folder) as web:
            web_cores, cores = _cores(options.cores)
            os.sched_setaffinity(web.pid, web_cores)
            os.sched_setaffinity(0, web_cores)
            say(f"{pages:,} pages of {spec.hosts} hosts, crawler on cores {sorted(cores)} …")
            crawls = [crawl(web, folder / "ws", pages, cores)]
            if not options.once and not crawls[0].failed:
                say("the beginning once more …")
                crawls.append(crawl(web, folder / "again", 2 * windows.base_of(pages).last, cores))
        return _show(crawls, pages, folder, options)
    finally:
        if options.keep:
            say(f"kept: {folder}")
        else:
            say("deleting what was written …")
            shutil.rmtree(folder, ignore_errors=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks.flat")
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where all of it is written; default: that of temporary files")
    parser.add_argument("--cores", type=int, default=0, help="that the crawler has; default: all")
    parser.add_argument("--once", action="store_true", help="do not crawl the beginning once more at the end")
    parser.add_argument("--keep", action="store_true", help="do not delete what was written")
    parser.add_argument("--json", type=Path, help="write figures and samples there too")
    options = parser.parse_args(arguments)
    if options.pages < 100:
        parser.error("fewer than 100 pages say nothing")
    return options


def web_of(pages: int) -> WebSpec:
    """At least so many."""
    hosts = max(1, min(HOSTS, pages // 20), pages // OF_HOST)
    return WebSpec(hosts=hosts, pages=-(-pages // hosts), size=SIZE, spread=SPREAD)


def _cores(wanted: int) -> tuple[set[int], set[int]]:
    """For the web and what looks, and for the crawler: if not all of them, the others."""
    cores = sorted(os.sched_getaffinity(0))
    return {cores[0]}, set(cores[-wanted:])


def _too_small(folder: Path, pages: int) -> str:
    """Why it will not fit there; empty: it will."""
    there = os.statvfs(folder)
    bytes_, files = int(DISK * pages), int(INODES * pages) + 70_000
    if there.f_bavail * there.f_frsize < bytes_:
        return f"{pages:,} pages take up to {bytes_ / 1e9:.1f} GB, which {folder.parent} has not: give another --folder"
    if there.f_files and there.f_favail < files:
        return f"{pages:,} pages take {files:,} files, more than {folder.parent} has left: give another --folder"
    return ""


def crawl(web: RunningWeb, workspace: Path, most: int, cores: set[int]) -> Crawl:
    """From one seed to `most` pages, or to the end of the web."""
    whole = web.spec.hosts * web.spec.pages
    wanted = min(most, whole)
    begin, env = web.log.stat().st_size, environment(workspace)
    command = [HEADRACE, "crawl", web.url(), *(["--max-pages", str(most)] if most < whole else [])]
    output = workspace.with_suffix(".log")
    process = start(command, cores=cores, cwd=workspace.parent, log=output, env=env)
    wrong: list[str] = []
    try:
        with Sampler(process.pid, workspace / "index.sqlite") as sampler:
            if not ended(process, 120 + wanted / SLOWEST):
                wrong.append("not done in time")
    finally:
        left = reap(process)
    if left and not wrong:
        wrong.append(f"{left} processes were left behind")
    if process.returncode:
        tail = output.read_text(errors="replace").strip()[-500:]
        return Crawl(sampler.samples, 0, 0, "; ".join([*wrong, f"ended with code {process.returncode}: {tail}"]))
    say("    judging it …")
    log = asked(web.log, begin, web.site)
    wrong += problems(workspace, web.site, log, wanted)
    return Crawl(sampler.samples, log.pages, log.again, "; ".join(wrong))


def _show(crawls: list[Crawl], pages: int, folder: Path, options: argparse.Namespace) -> int:
    failures = [f"FAILED: {one.failed}" for one in crawls if one.failed]
    for line in failures:
        print(line)
    if failures:
        return 1
    long, *again = crawls
    figures = [*windows.figures(long.samples, pages, again[0].samples if again else ())]
    figures += _on_disk(folder / "ws", pages)
    figures.append(Figure("the web's log", "pages asked twice", long.again, "", "== 0"))
    seconds = long.samples[-1].at
    figures.append(Figure("the whole crawl", f"{pages:,} pages", pages / seconds, "pages/s", note=f"{seconds:,.0f} s"))
    print(table(figures), "", sep="\n")
    for figure in figures:
        if figure.verdict:
            said = f"{figure.value:.3g} {figure.unit}".strip()
            print(f"{figure.verdict}: {figure.group}, {figure.case}: {said}, and it is to be {figure.bar}")
    if options.json:
        samples = [[astuple(sample) for sample in one.samples] for one in crawls]
        write(options.json, figures, samples=samples, fields=Sample.__struct_fields__)
    return 0


def _on_disk(workspace: Path, pages: int) -> list[Figure]:
    say("    counting what is on disk …")
    index = sum(path.stat().st_blocks * 512 for path in workspace.glob("index.sqlite*"))
    store, log = on_disk(workspace / "store"), on_disk(workspace / "state")
    note = f"{store.entries:,} files and folders; by their length {store.length / pages:,.0f}"
    return [
        Figure("on disk, a page", "bodies", store.size / pages, "bytes", note=note),
        Figure("on disk, a page", "index", index / pages, "bytes"),
        Figure("on disk, a page", "log and state", log.size / pages, "bytes"),
        Figure("on disk, a page", "all", (store.size + index + log.size) / pages, "bytes"),
    ]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
