"""A crawler that is one command: it ends by itself when it is done."""

from collections.abc import Callable
from pathlib import Path

from benchmarks.whole.measure import Watch, ended, reap, start
from benchmarks.whole.runs import PATIENCE, Arena, Outcome

NAME = "crawler"


def crawled(
    command: list[str],
    arena: Arena,
    folder: Path,
    cores: set[int],
    env: dict[str, str],
    stored: Callable[[], tuple[int, list[str]]] = lambda: (0, []),
) -> Outcome:
    """`stored`: bytes on disk and what is wrong with them, asked once it has ended."""
    log = folder / "crawler.log"
    process = start(command, cores=cores, cwd=folder, log=log, env=env)
    try:
        with Watch({NAME: process.pid}, arena.web.log) as watch:
            done = ended(process, PATIENCE)
            spent = watch.spent()
    finally:
        left = reap(process)
    wrong = []
    if not done:
        wrong.append(f"not done after {PATIENCE:g} s")
    elif process.returncode or not spent.seconds:
        wrong.append(f"ended with code {process.returncode}: {log.read_text(errors='replace').strip()[-500:]}")
    if left:
        wrong.append(f"{left} processes were left behind")
    size, more = stored()
    return Outcome(spent=spent, stored=size, problems=(*wrong, *more))
