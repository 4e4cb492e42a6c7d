"""The benchmark of a long crawl still runs, and takes none that lost something for a figure; how flat is not judged."""

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import zstandard

from benchmarks.flat.judge import Asked, asked, on_disk, problems
from benchmarks.flat.samples import Pages, Sample, spent_at
from benchmarks.flat.windows import base_of, figures, windows
from benchmarks.web.log import Request
from benchmarks.web.site import Site
from benchmarks.web.spec import WebSpec
from headrace_storer.store import path_of

ROOT = Path(__file__).parents[2]


def test_a_short_one_is_judged_and_says_what_a_page_costs_and_takes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.flat", "--pages", "200", "--folder", str(tmp_path)]
    command += ["--json", str(tmp_path / "flat.json")]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    said = json.loads((tmp_path / "flat.json").read_text())
    found = {(figure["group"], figure["case"]): figure for figure in said["figures"]}
    bars = {case: figure["bar"] for case, figure in found.items() if figure["bar"]}
    assert bars == {
        ("CPU of a page", "200 pages / 66 pages"): "<= 1.2",
        ("RSS at the most", "throughout"): "<= 500",
        ("the web's log", "pages asked twice"): "== 0",
    }
    assert found["CPU of a page", "66 pages"]["value"] > 0
    assert found["RSS at the most", "throughout"]["value"] > 20
    assert found["on disk, a page", "all"]["value"] > 500
    assert [max(sample[1] for sample in samples) for samples in said["samples"]] == [200, 198]
    assert os.listdir(tmp_path) == ["flat.json"]


def test_a_folder_that_is_too_small_is_said_in_a_line(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.flat", "--pages", "100000000", "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert "give another --folder" in done.stderr
    assert os.listdir(tmp_path) == []


def costing(*spent: tuple[int, float], rss: float = 100.0) -> list[Sample]:
    return [Sample(float(at), pages, cpu, cpu / 4, rss, 50.0) for at, (pages, cpu) in enumerate(spent)]


def test_the_windows_of_a_million_pages_go_by_threes_to_its_end() -> None:
    found = [(window.name, window.first, window.last) for window in windows(1_000_000)]
    assert found == [
        ("10,000 pages", 5_000, 15_000),
        ("30,000 pages", 20_000, 30_000),
        ("100,000 pages", 90_000, 100_000),
        ("300,000 pages", 270_000, 300_000),
        ("1,000,000 pages", 900_000, 1_000_000),
    ]
    assert (base_of(300).first, base_of(300).last) == (50, 150)


def test_a_cost_lies_between_two_looks_and_is_held_against_both_beginnings() -> None:
    long = costing((0, 0.0), (20_000, 20.0), (90_000, 90.0), (100_000, 103.0))
    assert spent_at(long, 5_000) == 5.0
    again = costing((0, 0.0), (30_000, 36.0), rss=460.0)
    found = {(figure.group, figure.case): figure for figure in figures(long, 100_000, again)}
    assert round(found["CPU of a page", "10,000 pages"].value) == 1_000
    assert round(found["CPU of a page", "10,000 pages, once more"].value) == 1_200
    last = found["CPU of a page", "100,000 pages / 10,000 pages"]
    assert (round(last.value, 3), last.verdict) == (round(1.3 / 1.1, 3), "ok")
    most = found["RSS at the most", "throughout"]
    assert (most.value, most.verdict) == (510.0, "MISSED")


def test_stored_pages_are_counted_while_they_are_written(tmp_path: Path) -> None:
    pages = Pages(tmp_path / "index.sqlite")
    assert pages.stored() == 0
    with sqlite3.connect(tmp_path / "index.sqlite") as index:
        index.execute("CREATE TABLE pages (id INTEGER PRIMARY KEY)")
        index.execute("INSERT INTO pages VALUES (NULL), (NULL)")
    index.close()
    assert pages.stored() == 2
    pages.close()


@pytest.fixture
def kept(tmp_path: Path) -> tuple[Path, Site, Path]:
    """A workspace and a log as a perfect crawl leaves them."""
    site = Site(WebSpec(hosts=2, pages=3, port=4000))
    index = sqlite3.connect(tmp_path / "index.sqlite")
    index.execute("CREATE TABLE pages (id INTEGER PRIMARY KEY, url, status, sha256)")
    index.execute("CREATE TABLE parsed (key)")
    log = tmp_path / "requests.jsonl"
    with log.open("wb") as lines:
        for address in site.hosts:
            for path in ("/robots.txt", "/", "/p/1", "/p/2"):
                lines.write(msgspec.json.encode(Request(0.0, address, path, 200)) + b"\n")
                if path != "/robots.txt":
                    body = site.answer(address, path, {}).body
                    sha256 = _stored(tmp_path, body)
                    row = (f"http://{address}:4000{path}", sha256)
                    index.execute("INSERT INTO pages VALUES (NULL, ?, 200, ?)", row)
                    index.execute("INSERT INTO parsed VALUES (?)", (row[0],))
    index.commit()
    index.close()
    return tmp_path, site, log


def _stored(workspace: Path, body: bytes) -> str:
    sha256 = hashlib.sha256(body).hexdigest()
    path = workspace / path_of(sha256)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(zstandard.ZstdCompressor().compress(body))
    return sha256


def test_a_perfect_crawl_has_no_problems(kept: tuple[Path, Site, Path]) -> None:
    workspace, site, log = kept
    assert asked(log, 0, site) == Asked(6, 0, 0)
    assert list(problems(workspace, site, Asked(6, 0, 0), 6)) == []
    size, length, count = on_disk(workspace / "store")
    assert (size >= length > 0, count) == (True, len(list((workspace / "store").rglob("*"))))


def test_what_a_crawl_lost_or_kept_wrongly_is_said(kept: tuple[Path, Site, Path]) -> None:
    workspace, site, log = kept
    with log.open("ab") as lines:
        lines.write(msgspec.json.encode(Request(0.0, next(iter(site.hosts)), "/p/1", 200)) + b"\n")
        lines.write(msgspec.json.encode(Request(0.0, next(iter(site.hosts)), "/p/9", 404)) + b"\n")
    found = asked(log, 0, site)
    assert found == Asked(6, 1, 1)
    first, second, *_ = sorted((workspace / "store").rglob("*.zst"))
    first.unlink()
    second.write_bytes(zstandard.ZstdCompressor().compress(b"another"))
    index = sqlite3.connect(workspace / "index.sqlite")
    index.execute("UPDATE pages SET url = (SELECT url FROM pages WHERE id = 1) WHERE id = 2")
    index.execute("DELETE FROM parsed WHERE rowid = 1")
    index.commit()
    index.close()
    assert list(problems(workspace, site, found, 7)) == [
        "1 requests for pages that are not there",
        "6 pages asked for, of 7",
        "6 rows of 5 different pages, and 6 were served",
        "1 rows have no body",
        "2 bodies are not what was served, of every 1th looked into",
        "5 pages parsed, of 6",
    ]
