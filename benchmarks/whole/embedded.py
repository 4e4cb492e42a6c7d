"""`headrace crawl` as it comes: all services in one process and its parser workers, the log and the store on disk."""

import os
from pathlib import Path

from msgspec import Struct

from benchmarks.whole.command import crawled
from benchmarks.whole.measure import on_disk
from benchmarks.whole.runs import Arena, Outcome
from benchmarks.whole.stored import HEADRACE, environment, problems

SAMPLER = Path(__file__).with_name("sampler")


class Embedded(Struct, frozen=True):
    name: str = "headrace embedded"
    samples: Path | None = None
    """Folder for samples of where its CPU goes; it costs more then."""

    def crawl(self, arena: Arena, folder: Path, cores: set[int]) -> Outcome:
        workspace = folder / "ws"
        env = environment(workspace)

        def stored() -> tuple[int, list[str]]:
            return on_disk(workspace), problems(arena.wanted, workspace, env)

        if self.samples:
            path = os.pathsep.join(filter(None, [str(SAMPLER), env.get("PYTHONPATH")]))
            samples, log = str(self.samples), str(arena.web.log)
            env |= {"PYTHONPATH": path, "BENCH_SAMPLES": samples, "BENCH_SAMPLES_AFTER": log}
        return crawled([HEADRACE, "crawl", arena.seed], arena, folder, cores, env, stored)
