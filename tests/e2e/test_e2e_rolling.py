"""Every service is replaced, one after the other, in the middle of a crawl, while the janitor deletes what was read."""

import json
import re
import urllib.error
import urllib.request
import uuid
from pathlib import Path

import pytest

from benchmarks.figures import table
from benchmarks.torture import judge, run
from benchmarks.torture.command import Crawl, common
from benchmarks.torture.fleet import Fleet, Process
from benchmarks.torture.kafka_case import SERVICES
from benchmarks.torture.order import Order
from benchmarks.torture.storm import Outcome
from benchmarks.web.running import RunningWeb
from tests.e2e.crawls import until

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ORDER = Order(kills=0, pages=360)
BETWEEN = 10  # requests


def ready(process: Process) -> bool:
    """As what watches over it would ask."""
    told = [json.loads(line) for line in process.log.read_text().rpartition("----")[2].splitlines()[1:]]
    addresses = [line["address"] for line in told if line["event"] == "starting"]
    if not addresses:
        return False
    try:
        with urllib.request.urlopen(f"http://{addresses[0]}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def test_a_rolling_restart_under_load_loses_nothing_and_asks_for_nothing_twice(tmp_path: Path, kafka_url: str) -> None:
    crawl = Crawl(
        tmp_path,
        **common(ORDER.delay),
        HEADRACE_STREAMS__URL=kafka_url,
        HEADRACE_STREAMS__PREFIX=f"rolling-{uuid.uuid4().hex[:8]}.",
        HEADRACE_STREAMS__PARTITIONS="8",
        HEADRACE_STREAMS__KEEP="1",
        HEADRACE_STREAMS__JANITOR_INTERVAL="1",
    )
    crawl.run("topics", "create")
    fleet = Fleet([Process(who, crawl.command("run", who.split()[0]), crawl.environment, tmp_path) for who in SERVICES])
    with RunningWeb(ORDER.web, folder=tmp_path) as web:
        with fleet:
            crawl.run("seed", *web.seeds())
            until(lambda: len(web.requests()) > 3 * BETWEEN, 60, "the crawl begins")
            for process in fleet.processes:
                assert process.replace() == 0, (process.name, process.tail())
                until(lambda p=process: ready(p), 60, process.name)  # type: ignore[misc]
                asked = len(web.requests())
                until(lambda n=asked: len(web.requests()) > n + BETWEEN, 60, process.name)  # type: ignore[misc]
            assert run.hung_on(crawl.status()), "the crawl was over before the last was replaced"
            until(lambda: not run.hung_on(crawl.status()), 120, "complete")
            figures = judge.judged("rolling", run.evidence(crawl, web, ORDER, Outcome([], []), ()))
            shown = crawl.run("topics", "show")
    assert not [figure for figure in figures if figure.verdict == "MISSED"], table(figures)
    figures_of = {figure.case: figure.value for figure in figures}
    assert figures_of["repeats"] == 0, table(figures)
    assert re.search(r"urls\.to_fetch +fetcher +8 +[1-9]", shown), "the janitor deleted nothing: " + shown
    assert fleet.left == 0
