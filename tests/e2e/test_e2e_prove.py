"""`headrace politeness prove` after a real crawl, held against the log of the web that was crawled."""

import json
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import Redirects, RobotsKinds, WebSpec
from headrace_schemas.settings import Settings
from headrace_storer.index import open_index
from tests.e2e.crawls import Crawler, kill, until

DELAY = 0.3
WEB = WebSpec(hosts=6, pages=6, robots=RobotsKinds(delay=0.5), crawl_delay=0.6, redirects=Redirects(across=0.1))


def proof(crawler: Crawler, *options: str) -> tuple[int, dict[str, Any]]:
    done = crawler.run("politeness", "prove", "--json", *options)
    told: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, told


def paths_asked(workspace: Path) -> list[tuple[str, str]]:
    """(host, path) in the order of the history: host by host, each in order of time."""
    index = open_index(Settings(), workspace, create=False)
    try:
        return [(asked.host, urlsplit(asked.url).path) for asked in index.hosts_asked()]
    finally:
        index.close()


def test_the_proof_has_the_requests_of_the_servers_own_log_and_its_verdict(tmp_path: Path) -> None:
    with RunningWeb(WEB) as web:
        crawler = Crawler(tmp_path)
        assert crawler.crawl(web.seeds(6), "--delay", str(DELAY)) == 0, crawler.tail()
        code, told = proof(crawler)
        arrived = [(request.ip, urlsplit(request.path).path) for request in web.requests()]
        assert paths_asked(crawler.workspace) == sorted(arrived, key=lambda asked: asked[0])
        assert {host["host"]: host["requests"] for host in told["hosts"]} == Counter(ip for ip, _ in arrived)
        for host in told["hosts"]:
            last = host["between"][1]
            asks = web.site.crawl_delay(host["host"]) if last["kind"] == "page" else 0.0
            assert host["owed"] == max(DELAY, asks), host
        assert (code, told["short_gaps"], web.under(DELAY)) == (0, 0, [])


def test_the_proof_can_be_asked_for_while_the_crawl_runs_and_covers_a_kill(tmp_path: Path) -> None:
    with RunningWeb(WEB) as web:
        crawler = Crawler(tmp_path)
        process = crawler.begin(web.seeds(6), "--delay", str(DELAY))
        try:
            until(lambda: len(web.requests()) > 18, what=crawler.tail())
            code, told = proof(crawler)
        finally:
            kill(process)
        assert (code, told["short_gaps"]) == (0, 0)
        assert 0 < told["request_count"] <= len(web.requests())
        assert crawler.crawl(web.seeds(6), "--delay", str(DELAY)) == 0, crawler.tail()
        code, told = proof(crawler)
        assert (code, told["short_gaps"], web.under(DELAY)) == (0, 0, [])
        # What a killed process had asked without having told anyone is in the log of the web alone.
        assert told["request_count"] <= len(web.requests())
        assert {host["host"] for host in told["hosts"]} == {request.ip for request in web.requests()}
