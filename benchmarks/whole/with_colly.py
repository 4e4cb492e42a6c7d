"""Colly, built from `colly/` where there is a Go toolchain; nothing is installed."""

import os
import shutil
import subprocess
from pathlib import Path

from msgspec import Struct

from benchmarks.whole.command import crawled
from benchmarks.whole.runs import Arena, Outcome

SOURCE = Path(__file__).with_name("colly")
BUILD_SECONDS = 300


class CannotBuild(Exception):
    """One line that says why."""


class Colly(Struct, frozen=True):
    program: Path
    name: str

    @classmethod
    def built(cls, folder: Path) -> "Colly":
        go = shutil.which("go")
        if go is None:
            raise CannotBuild("no Go toolchain")
        program = folder / "colly"
        command = [go, "build", "-mod=readonly", "-buildvcs=false", "-o", str(program), "."]
        env = os.environ | {"GOTOOLCHAIN": "local"}
        try:
            done = subprocess.run(
                command, cwd=SOURCE, env=env, capture_output=True, text=True, check=False, timeout=BUILD_SECONDS
            )
        except subprocess.TimeoutExpired:
            raise CannotBuild(f"not built within {BUILD_SECONDS} s") from None
        if done.returncode:
            raise CannotBuild("it cannot be built: " + " ".join(done.stderr.split())[-300:])
        return cls(program, f"Colly {_version()}")

    def crawl(self, arena: Arena, folder: Path, cores: set[int]) -> Outcome:
        return crawled([str(self.program), arena.seed], arena, folder, cores, dict(os.environ))


def _version() -> str:
    lines = (SOURCE / "go.mod").read_text().splitlines()
    return next(line.rpartition(" v")[2] for line in lines if "gocolly/colly" in line)
