"""`python -m benchmarks.fetch`: runs the cases and prints the table."""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from benchmarks.fetch import cases
from benchmarks.fetch.bench import Bench, Failed
from benchmarks.fetch.cases import Sizes
from benchmarks.figures import Figure, headline, table, write
from headrace_schemas.settings import FetchSettings

Case = Callable[[Bench, Sizes, Iterable[str]], list[Figure]]
CASES: dict[str, Case] = {
    "scrapy": cases.against_scrapy,
    "small": cases.small,
    "hosts": cases.hosts,
    "polite": cases.polite,
    "slow": cases.slow,
}
CLIENTS = ("httptools", "pyreqwest", "httpx")
SMOKE = Sizes(
    rounds=1, hosts=4, pages=16, few=2, many=4, polite_hosts=4, polite_pages=5, slow_pages=3, delay=0.3, pace=0.1
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    for name in options.cases:
        if name not in CASES:
            parser.error(f"there is no case {name!r}; known: {', '.join(CASES)}")
    sizes = SMOKE if options.smoke else Sizes(rounds=options.rounds, pages=options.pages)
    if options.profile:
        options.profile.mkdir(parents=True, exist_ok=True)
    print(headline())
    figures: list[Figure] = []
    try:
        with tempfile.TemporaryDirectory(prefix="fetch-") as folder:
            bench = Bench(Path(folder), options.peers, options.profile and options.profile.resolve())
            for name in options.cases or CASES:
                print(f"{name} …", file=sys.stderr, flush=True)
                figures += CASES[name](bench, sizes, _clients(options, name))
    except Failed as error:
        print(error, file=sys.stderr)
        return 1
    print(table(figures))
    if options.json:
        write(options.json, figures)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.fetch")
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)} (default: all)")
    parser.add_argument("--peers", type=Path, help="Python that has Scrapy; without, nothing is compared with it")
    parser.add_argument("--clients", nargs="+", choices=CLIENTS, help="default: all where they are compared, else one")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median is taken")
    parser.add_argument("--pages", type=int, default=2_000, help="of each run")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--profile", type=Path, help="folder for cProfile files; the figures are worthless then")
    parser.add_argument("--smoke", action="store_true", help="whether it runs at all: the figures are worthless")
    return parser


def _clients(options: argparse.Namespace, case: str) -> tuple[str, ...]:
    if options.clients:
        return tuple(options.clients)
    return CLIENTS if case in ("scrapy", "small") else (FetchSettings().client,)


if __name__ == "__main__":
    sys.exit(main())
