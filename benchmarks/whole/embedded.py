"""`headrace crawl` as it comes: all services in one process and its parser workers, the log and the store on disk."""

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
            sampler = {"PYTHONPATH": SAMPLER, "BENCH_SAMPLES": self.samples, "BENCH_SAMPLES_AFTER": arena.web.log}
            env |= {name: str(value) for name, value in sampler.items()}
        return crawled([HEADRACE, "crawl", arena.seed], arena, folder, cores, env, stored)
