"""`python -m benchmarks.torture`: runs the cases, prints what is done to whom, and the judge's table."""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import structs

from benchmarks.figures import Figure, headline, table, write
from benchmarks.torture import embedded_case, kafka3_case, kafka_case, scrapy_case
from benchmarks.torture.command import Failed
from benchmarks.torture.order import SHORT, Order
from deploy.kafka.jars import CannotRun

CASES: dict[str, Callable[[Order, Path], list[Figure]]] = {
    "embedded": embedded_case.case,
    "kafka": kafka_case.case,
    "kafka3": kafka3_case.case,
    "scrapy": scrapy_case.case,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    for name in options.cases:
        if name not in CASES:
            parser.error(f"there is no case {name!r}; known: {', '.join(CASES)}")
    said = {name: value for name in ("seed", "kills", "pages", "seconds") if (value := getattr(options, name))}
    peers = options.peers and options.peers.absolute()  # a link stays one: it is how an environment is found
    order = structs.replace(SHORT if options.short else Order(), peers=peers, **said)
    folder = Path(options.folder or tempfile.mkdtemp(prefix="torture-")).resolve()
    print(headline(), flush=True)
    figures: list[Figure] = []
    for name in options.cases or CASES:
        of_case = _of_case(name, order, folder / name)
        print(table(of_case), flush=True)
        figures += of_case
    if options.json:
        write(options.json, figures)
    missed = any(figure.verdict == "MISSED" for figure in figures)
    if options.folder is None and not missed:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"logs of every process, the web's and the faults as met: {folder}", file=sys.stderr)
    return int(missed)


def _of_case(name: str, order: Order, folder: Path) -> list[Figure]:
    """A case that cannot be run is a miss, and the others go on."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        return CASES[name](order, folder)
    except (Failed, CannotRun) as error:
        return [Figure(name, "could not be run", 1, "", "== 0", str(error)[:300])]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.torture")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)} (default: all)")
    parser.add_argument("--seed", type=int, help=f"of the web and of the faults (default: {Order().seed})")
    parser.add_argument("--kills", type=int, help=f"in each case, at the least (default: {Order().kills})")
    parser.add_argument("--pages", type=int, help=f"of the web (default: {Order().pages:,})")
    parser.add_argument("--seconds", type=float, help=f"a crawl may take (default: {Order().seconds:g})")
    parser.add_argument("--short", action="store_true", help="seconds each: whether it works at all")
    parser.add_argument("--peers", type=Path, help="Python that has Scrapy")
    parser.add_argument("--folder", type=Path, help="where workspaces and logs are made, and stay")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    return parser


if __name__ == "__main__":
    sys.exit(main())
