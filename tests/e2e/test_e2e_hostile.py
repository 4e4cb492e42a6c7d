"""A whole crawl among servers that do everything wrong: each URL ends with a named outcome, and the good hosts lose
nothing by it."""

import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.crawls import Crawler
from tests.e2e.odd_web import OddWeb, linking, odd_web
from tests.fetcher.hostile import bomb, html
from tests.fetcher.test_fetcher_hostile import CASES

GOOD = [f"127.6.0.{number}" for number in range(1, 11)]
PAGES = 12
MEMORY = 300 * 1024  # kB, of the crawl's own process
QUICK = ("--set", "fetch.total_timeout=3", "--set", "fetch.read_timeout=2", "--set", "retry.base=0.05")


def test_a_crawl_among_hostile_servers_names_every_outcome_and_loses_no_good_page(tmp_path: Path) -> None:
    with odd_web() as web:
        expected = _serve(web)
        crawler = Crawler(tmp_path)
        with _watched(crawler) as memory:
            assert crawler.crawl([web.url(GOOD[0])], "--delay", "0", *QUICK) == 0, crawler.tail()
        rows = {row["url"]: row for row in crawler.rows()}
        told = {url: json.loads(row["metadata"] or "{}").get("reason", "") for url, row in rows.items()}
        good = [url for url, reason in expected.items() if not reason]
        assert {url: rows[url]["http_status"] for url in good} == dict.fromkeys(good, "200")
        assert {url: told[url] for url in expected} == expected
        assert rows.keys() == expected.keys()
        status = crawler.status()
    assert status["complete"]
    assert (status["fetched"], status["failed"]) == (len(good), len(expected) - len(good))
    assert max(memory) < MEMORY
    assert crawler.run("frontier", "check").returncode == 0
    assert crawler.run("politeness", "prove").returncode == 0


def _serve(web: OddWeb) -> dict[str, str]:
    """→ URL: the reason it must fail for, empty for a good page. Each hostile page has a host of its own."""
    for encoding in ("gzip", "br", "zstd", "gzip, gzip"):
        path = f"/bomb/{encoding.replace(', ', '-')}"
        web.serve(path, html(f"Content-Encoding: {encoding}", body=bomb(64, encoding)))
    bad = {
        web.url(f"127.6.1.{number}", path.replace(", ", "-")): reason
        for number, (path, [reason]) in enumerate(CASES.items(), 1)
    }
    good = {web.url(host, f"/good/{page}"): "" for host in GOOD for page in range(PAGES)}
    front = web.url(GOOD[0])
    web.serve("/", linking(*bad, *good))
    for page in range(PAGES):
        web.serve(f"/good/{page}", html())
    return {front: "", **good, **bad}


@contextmanager
def _watched(crawler: Crawler) -> Iterator[list[int]]:
    """Peak memory, in kB, of the process that crawls; its parser workers have bounds of their own."""
    found = [0]
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.05):
            for entry in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    line = entry.read_bytes()
                    if b"headrace\0crawl\0" not in line or os.fsencode(crawler.workspace) not in line:
                        continue
                    peak = re.search(r"VmHWM:\s+(\d+) kB", entry.with_name("status").read_text())
                except OSError:  # it has ended meanwhile
                    continue
                if peak:
                    found.append(int(peak[1]))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads memory where Linux shows it")
