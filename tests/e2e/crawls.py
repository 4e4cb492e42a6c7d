"""A crawl as a user runs it, against a web that keeps its own log; the log and the web's own graph are the judge."""

import csv
import io
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import zstandard

from benchmarks.web.expected import Expected
from benchmarks.web.running import RunningWeb
from tests.headrace_command import headrace, start

LOOPBACK = ("--allow-private", "127.0.0.0/8", "--scope", "all", "--contact", "tests@example.org")
Rows = list[dict[str, str]]


class Crawler:
    """One workspace in `folder`; each call is a process of its own."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder, self.workspace = folder, folder / "ws"
        self.environment = environment
        self.output = folder / "crawl.log"

    def crawl(self, seeds: Iterable[str], *extra: str, timeout: float = 120) -> int:
        done = headrace(*self._crawl(seeds, extra), cwd=self.folder, timeout=timeout, **self.environment)
        with self.output.open("a") as out:
            out.write(done.stdout + done.stderr)
        return done.returncode

    def begin(self, seeds: Iterable[str], *extra: str) -> "subprocess.Popen[bytes]":
        return start(*self._crawl(seeds, extra), cwd=self.folder, log=self.output, **self.environment)

    def run(self, *args: str, timeout: float = 60) -> "subprocess.CompletedProcess[str]":
        return headrace(*args, "--workspace", str(self.workspace), cwd=self.folder, timeout=timeout, **self.environment)

    def rows(self) -> Rows:
        done = self.run("pages", "--format", "csv")
        assert done.returncode == 0, done.stderr
        csv.field_size_limit(1 << 30)
        return list(csv.DictReader(io.StringIO(done.stdout)))

    def status(self) -> dict[str, Any]:
        done = self.run("status", "--json")
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def tail(self) -> str:
        return self.output.read_text()[-2000:] if self.output.exists() else ""

    def _crawl(self, seeds: Iterable[str], extra: tuple[str, ...]) -> list[str]:
        return ["crawl", *seeds, "--workspace", str(self.workspace), *LOOPBACK, *extra]


def kill(process: "subprocess.Popen[bytes]") -> None:
    """SIGKILL to it and to everything it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def until(condition: Callable[[], bool], timeout: float = 30.0, what: str = "") -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"not within {timeout} s: {what}"
        time.sleep(0.02)


def check_exact(web: RunningWeb, rows: Rows, workspace: Path, seeds: list[str] | None = None) -> list[Expected]:
    """Every URL that a perfect crawl requests has one row, with its status, hash, size and body; nothing else has."""
    wanted = web.expected(seeds)
    by_spelling = {spelling: page for page in wanted for spelling in page.spellings}
    strange = [row["url"] for row in rows if row["url"] not in by_spelling]
    assert not strange, f"{len(strange)} rows from nowhere: {strange[:3]}"
    seen = Counter(by_spelling[row["url"]].url for row in rows)
    lost = [page.url for page in wanted if page.url not in seen]
    assert not lost, f"{len(lost)} of {len(wanted)} lost: {lost[:3]}"
    assert max(seen.values()) == 1, [url for url, times in seen.items() if times > 1][:3]
    for row in rows:
        page = by_spelling[row["url"]]
        assert row["http_status"] == str(page.status), (row, page)
        if page.status == 200 and page.content_type == "text/html":
            assert row["content_sha256"] == page.sha256, row["url"]
            assert row["content_bytes"] == str(page.size), row["url"]
            check_body(row, workspace)
    return wanted


def check_body(row: dict[str, str], workspace: Path) -> None:
    import hashlib

    digest = row["content_sha256"]
    assert row["stored_path"] == f"store/html/{digest[:2]}/{digest[2:4]}/{digest}.html.zst"
    body = zstandard.ZstdDecompressor().decompressobj().decompress((workspace / row["stored_path"]).read_bytes())
    assert hashlib.sha256(body).hexdigest() == digest


def pages_asked(web: RunningWeb) -> list[str]:
    return [f"http://{r.ip}:{web.port}{r.path}" for r in web.requests() if r.path != "/robots.txt"]
