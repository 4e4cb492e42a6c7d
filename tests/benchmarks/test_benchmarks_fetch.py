"""The benchmark of the fetcher still runs, and says what it was asked; how fast it was is not judged here."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.fetch.bench import PAGES, Bench, Failed, page_urls
from benchmarks.fetch.cases import compared
from benchmarks.fetch.order import Spent

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the web makes its certificate with openssl")
def test_every_case_gives_its_figures(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.fetch", "--smoke", "--clients", "httptools", "--json"]
    subprocess.run([*command, str(tmp_path / "figures.json")], cwd=ROOT, check=True, capture_output=True)
    figures = json.loads((tmp_path / "figures.json").read_text())["figures"]
    assert {figure["group"] for figure in figures} == {
        *("plain", "TLS, kept alive", "TLS, new connections", "pages of 3 KB", "hosts"),
        *("4 hosts at 0.3 s", "5 s and dripping hosts"),
    }
    assert all(figure["value"] > 0 for figure in figures if figure["unit"] in ("pages per CPU-s", "pages/s"))


def test_the_default_client_alone_is_held_to_five_times_scrapy_with_and_without_its_engine() -> None:
    costs = {"httptools": 1.0, "httpx": 2.0, "Scrapy default": 4.0, "Scrapy bare": 3.0, "Scrapy engine": 6.0}
    found = {name: [Spent(cpu * 10, 1.0, {"200": 10}, 0)] for name, cpu in costs.items()}
    ratios = {f.case: (f.value, f.verdict) for f in compared("plain", found, "2.13") if f.unit == "×"}
    assert ratios == {
        "httptools / Scrapy engine": (6.0, "ok"),
        "httptools / Scrapy default": (4.0, "MISSED"),
        "httptools / Scrapy bare": (3.0, ""),
        "httpx / Scrapy engine": (3.0, ""),
        "httpx / Scrapy default": (2.0, ""),
        "httpx / Scrapy bare": (1.5, ""),
    }


def test_an_unknown_case_is_named() -> None:
    command = [sys.executable, "-m", "benchmarks.fetch", "hots"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "hots" in done.stderr


def test_a_run_that_did_not_fetch_all_pages_is_no_figure(tmp_path: Path) -> None:
    bench = Bench(tmp_path, peers=None, profile=None)
    with bench.web(PAGES.at(0)) as web:
        urls = page_urls(web, range(2), 2)
        spent = bench.fetcher(web, "httptools", urls)
        assert (spent.pages, spent.outcomes) == (4, {"200": 4})
        with pytest.raises(Failed, match="http"):
            bench.fetcher(web, "httptools", [*urls, web.url(0, "/p/9999")])
