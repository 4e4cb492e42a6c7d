"""Scrapy, in an environment of its own: the spider is `scrapy_peer.py`."""

import os
import subprocess
from pathlib import Path

from msgspec import Struct

from benchmarks.whole.command import crawled
from benchmarks.whole.runs import Arena, Outcome

PEER = Path(__file__).with_name("scrapy_peer.py")


class Scrapy(Struct, frozen=True):
    python: Path
    name: str

    @classmethod
    def of(cls, python: Path) -> "Scrapy":
        code = "import scrapy; print(scrapy.__version__)"
        version = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
        return cls(python.absolute(), f"Scrapy {version}")

    def crawl(self, arena: Arena, folder: Path, cores: set[int]) -> Outcome:
        return crawled([str(self.python), str(PEER), arena.seed], arena, folder, cores, dict(os.environ))
