"""`python -m benchmarks.frontier`: runs the cases, each in a process of its own, and prints the table."""

import argparse
import asyncio
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.figures import Figure, headline, table, write
from benchmarks.frontier import cases
from benchmarks.frontier.cases import Case, say

CASES = ("ingest", "release", "restart", "big-host")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.one:
        print(msgspec.json.encode(_one(options)).decode())
        return 0
    print(headline())
    figures: list[Figure] = []
    for name, arguments_ in _plan(options):
        say(f"{name} …")
        figures += _in_its_own_process(options, arguments_)
    figures = _with_ratios(figures)
    print(table(figures))
    if options.json:
        write(options.json, figures)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.frontier")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)} (default: all)")
    parser.add_argument("--known", type=int, nargs="+", default=[100_000, 1_000_000], help="sizes for ingest")
    parser.add_argument("--full", action="store_true", help="ingest at 10 M too: about ten minutes more")
    parser.add_argument("--links", type=int, default=400_000, help="links measured at each size")
    parser.add_argument("--releases", type=int, default=40_000, help="URLs released for each figure")
    parser.add_argument("--hosts", default="1000x10,1000x1000,100000x10", help="HOSTSxURLS for release")
    parser.add_argument("--queued", type=int, default=1_000_000, help="for restart, and of the big host")
    parser.add_argument("--folder", type=Path, help="where the databases are made (default: a temporary one)")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--profile", type=Path, help="folder for cProfile files; the figures are worthless then")
    parser.add_argument("--one", default="", help=argparse.SUPPRESS)
    return parser


def _plan(options: argparse.Namespace) -> list[tuple[str, str]]:
    """What to run, each as `--one` takes it."""
    chosen = options.cases or CASES
    for name in chosen:
        if name not in CASES:
            raise SystemExit(f"there is no case {name!r}; known: {', '.join(CASES)}")
    sizes = [*options.known, *([10_000_000] if options.full else [])]
    plan = [("ingest", "ingest:" + ",".join(map(str, sizes)))] if "ingest" in chosen else []
    if "release" in chosen:
        plan += [(f"release {grid}", f"release:{grid}") for grid in options.hosts.split(",")]
    plan += [(name, f"{name}:{options.queued}") for name in ("restart", "big-host") if name in chosen]
    return plan


def _in_its_own_process(options: argparse.Namespace, one: str) -> list[Figure]:
    command = [sys.executable, "-m", "benchmarks.frontier", "--one", one]
    command += ["--links", str(options.links), "--releases", str(options.releases)]
    if options.profile:
        options.profile.mkdir(parents=True, exist_ok=True)
        command += ["--profile", str(options.profile)]
    with tempfile.TemporaryDirectory(dir=options.folder, prefix="frontier-") as folder:
        done = subprocess.run([*command, "--folder", folder], stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=list[Figure])


def _one(options: argparse.Namespace) -> list[Figure]:
    case = Case(options.folder / "log", options.links, options.releases, options.profile)
    name, _, rest = options.one.partition(":")
    match name:
        case "ingest":
            return asyncio.run(cases.ingest(case, [int(size) for size in rest.split(",")]))
        case "release":
            hosts, each = map(int, rest.split("x"))
            return asyncio.run(cases.release(case, hosts, each))
        case "restart":
            return cases.restart(case, int(rest))
        case _:
            return asyncio.run(cases.big_host(case, int(rest)))


def _with_ratios(figures: list[Figure]) -> list[Figure]:
    """Release is to be flat: each case against the first."""
    alone = [figure for figure in figures if figure.group == "release" and figure.case.endswith("release alone")]
    flat = [
        Figure("release", other.case.partition(":")[0], alone[0].value / other.value, "× the cost of the first")
        for other in alone[1:]
    ]
    last = max((at for at, figure in enumerate(figures) if figure.group == "release"), default=-1)
    return [*figures[: last + 1], *flat, *figures[last + 1 :]]


if __name__ == "__main__":
    sys.exit(main())
