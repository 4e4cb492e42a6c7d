"""`python -m benchmarks.robots`: every parser on every case, and the table."""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figure, headline, table, write
from benchmarks.robots import real
from benchmarks.robots.cases import CORE, STARS
from benchmarks.robots.parsers import OURS, PARSERS, Parser, verdicts

SITE = "http://site.example"
PATIENCE = 5.0  # seconds for the rule of many stars


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    print(headline())
    figures = [figure for name, parser in PARSERS.items() for figure in core(name, parser)]
    figures += [stars(name, parser) for name, parser in PARSERS.items()]
    if options.real:
        figures += on_real_files(options.real, options.peers, options.files)
    print(table(figures))
    if options.json:
        write(options.json, figures)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.robots")
    parser.add_argument("--real", type=Path, help="folder of real files; fetched from a package if it is not there")
    parser.add_argument("--peers", type=Path, help="Python that has gpyrobotstxt, the judge of real files")
    parser.add_argument("--files", type=int, default=1_000, help="real files at the most")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    return parser


def core(name: str, parser: Parser) -> list[Figure]:
    wrong: Counter[str] = Counter()
    for case in CORE:
        if verdicts(parser, case.text, case.agent, [SITE + case.path]) != [case.allowed]:
            wrong[case.area] += 1
    note = ", ".join(f"{area} {number}" for area, number in wrong.most_common())
    bar = f">= {len(CORE)}" if name == OURS else ""
    right = len(CORE) - wrong.total()
    return [Figure("core cases", name, right, f"of {len(CORE)}", bar, f"wrong: {note}" if note else "")]


def stars(name: str, parser: Parser) -> Figure:
    text, path = STARS
    began = time.perf_counter()
    said = verdicts(parser, text, "headrace", [SITE + path], PATIENCE)
    spent = (time.perf_counter() - began) * 1000
    note = "" if said == [True] else "did not end in time" if said is None else "wrong"
    return Figure("rule of 15 stars", name, spent, "ms", "< 100" if name == OURS else "", note)


def on_real_files(folder: Path, peers: Path | None, most: int) -> list[Figure]:
    """Against Google's parser where there is one; else it is only told who differs from our own."""
    asked = real.questions(real.files(folder, most))
    expected = real.truth(peers, asked) if peers else [_ours(one) for one in asked]
    whose = "wrong" if peers else "other than ours"
    files, urls = len({one.file for one in asked}), sum(len(one.urls) for one in asked)
    figures = []
    for name, parser in PARSERS.items():
        counted, wrong, let = 0, 0, 0
        for one, true in zip(asked, expected, strict=True):
            said = verdicts(parser, one.file.read_bytes(), one.agent, one.urls)
            for at, allowed in enumerate(true or ()):
                counted += 1
                wrong += said is None or said[at] != allowed
                let += said is not None and said[at] and not allowed
        note = f"{wrong:,} of {counted:,} on {files:,} files; {let:,} wrongly allowed" if peers else f"{urls:,} URLs"
        figures.append(Figure("real files", name, 100 * wrong / max(1, counted), f"% {whose}", note=note))
    return figures


def _ours(one: real.Question) -> list[bool] | None:
    return verdicts(PARSERS[OURS], one.file.read_bytes(), one.agent, one.urls)


if __name__ == "__main__":
    sys.exit(main())
