"""The real services, crawling, scraped by a real Prometheus with our rules: everything that our dashboards, rules and
alerts ask for must be there."""

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import Errors, Redirects, WebSpec
from tests.deploy.promql import Query, dashboards, names, of_dashboards, of_panels, of_rules, of_variables
from tests.e2e.crawls import Crawler, kill, until
from tests.e2e.test_e2e_kafka import Fleet, fleet
from tests.prometheus_server import Prometheus, program, prometheus

SERVICES = ("frontier", "fetcher", "fetcher", "parser", "storer")
ONLY_KAFKA = {"headrace_rebalances", "headrace_restore_seconds"}
OF_PROMETHEUS = {"up", "ALERTS"}
WEB = WebSpec(hosts=10, pages=12, errors=Errors(missing=0.1, flaky=0.1), redirects=Redirects(inside=0.1))
DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"


class Watched(NamedTuple):
    server: Prometheus
    targets: list[tuple[str, str]]
    """(service, host:port)"""
    status: dict[str, Any]
    """What `headrace status` says of the crawl."""
    workspace: Path


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory, kafka_url: str) -> Iterator[Watched]:
    """A crawl that has just ended, and a Prometheus that was there all the time."""
    program("prometheus")
    folder = tmp_path_factory.mktemp("fleet")
    with RunningWeb(WEB) as web, fleet(folder, kafka_url, 0.1, ()) as running:
        running.crawler.environment |= {"HEADRACE_METRICS__CSV": "true", "HEADRACE_METRICS__CSV_INTERVAL": "1"}
        for service in SERVICES:
            running.start(service)
        until(lambda: len(addresses(running)) == len(SERVICES), 120, "all have said where they listen")
        targets = addresses(running)
        with prometheus({name: [at for service, at in targets if service == name] for name in SERVICES}) as server:
            server.wait_up(len(SERVICES))
            assert running.crawler.run("seed", *web.seeds()).returncode == 0
            running.wait_complete()
            status = running.crawler.status()
            until(lambda: total(server, 'crawler_urls{state="fetched"}') == status["fetched"], 60, "the end is scraped")
            yield Watched(server, targets, status, running.crawler.workspace)


def addresses(running: Fleet) -> list[tuple[str, str]]:
    """(service, host:port) of every process, from the line it logs when it starts."""
    lines = [line for path in running.folder.glob("*.log") for line in path.read_text().split("\n")[:-1]]
    said = [json.loads(line) for line in lines if '"address"' in line]
    return [(line["service"], line["address"]) for line in said]


def total(server: Prometheus, query: str) -> float:
    return sum(float(found["value"][1]) for found in server.query(query))


def missing(server: Prometheus, queries: Iterable[Query]) -> list[str]:
    """What is asked for and exported by nobody."""
    known = server.names() | OF_PROMETHEUS
    return [f"{query.where}: {name}" for query in queries for name in sorted(names(query.text) - known)]


def families(address: str) -> set[str]:
    """Names of all that one process exports, as it says them itself."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as reply:
        text = reply.read().decode()
    return set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))


@pytest.mark.kafka
@pytest.mark.slow
def test_every_metric_that_a_dashboard_a_rule_or_an_alert_names_is_exported(watched: Watched) -> None:
    assert not missing(watched.server, [*of_dashboards(), *of_rules()])


@pytest.mark.kafka
@pytest.mark.slow
def test_a_name_that_nobody_exports_is_found_out(watched: Watched) -> None:
    made_up = Query("a panel", 'sum by (host) (rate(crawler_pages_invented_total{host="up"}[5m])) / on (host) up')
    assert missing(watched.server, [made_up]) == ["a panel: crawler_pages_invented_total"]


@pytest.mark.kafka
@pytest.mark.slow
def test_every_panel_and_variable_has_something_to_show(watched: Watched) -> None:
    """Names are not enough: a label that is not there leaves a panel, or the choice of a variable, empty too."""
    empty = []
    shown = [query for board in dashboards().items() for asked in (of_panels, of_variables) for query in asked(*board)]
    for query in shown:
        if "offset" not in query.text:  # there is nothing yet of that long ago
            try:
                until(lambda text=query.text: bool(watched.server.query(text)), 20)  # type: ignore[misc]
            except AssertionError:
                empty.append(query)
    assert not empty


@pytest.mark.kafka
@pytest.mark.slow
def test_every_rule_is_evaluated_without_an_error(watched: Watched) -> None:
    def evaluated() -> bool:
        return all(rule["health"] != "unknown" for rule in all_rules())

    def all_rules() -> list[dict[str, str]]:
        return [rule for group in watched.server.api("rules")["groups"] for rule in group["rules"]]

    until(evaluated, 60, "every rule was evaluated once")
    assert [(rule["name"], rule.get("lastError")) for rule in all_rules() if rule["health"] != "ok"] == []
    assert len(all_rules()) == len(list(of_rules()))


@pytest.mark.kafka
@pytest.mark.slow
def test_nothing_critical_is_said_of_a_crawl_that_went_well(watched: Watched) -> None:
    firing = watched.server.query('ALERTS{severity="critical", alertstate="firing"}')
    told = {found["metric"]["alertname"] for found in firing}
    assert told <= {"HeadraceDiskAlmostFull"}, "which is this machine's own"


@pytest.mark.kafka
@pytest.mark.slow
def test_every_process_of_the_fleet_is_seen_under_its_service(watched: Watched) -> None:
    until(lambda: watched.server.up() == sorted(watched.targets), 30, "all were scraped")
    beats = watched.server.query("last_over_time(headrace_heartbeat_timestamp_seconds[1m])")
    assert sorted((found["metric"]["service"], found["metric"]["instance"]) for found in beats) == sorted(
        watched.targets
    )


@pytest.mark.kafka
@pytest.mark.slow
def test_all_that_is_exported_is_in_the_docs_and_promtool_finds_no_fault(watched: Watched) -> None:
    documented = set(re.findall(r"^\| `(\w+)`", DOCS.read_text(), re.MULTILINE))
    for service, address in watched.targets:
        ours = {name for name in families(address) if name.startswith(("crawler_", "headrace_"))}
        assert {name for name in ours if not name.endswith("_created")} <= documented, service
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as reply:
            linted = subprocess.run([program("promtool"), "check", "metrics"], input=reply.read(), capture_output=True)
        complaints = [
            line for line in linted.stderr.decode().splitlines() if line.startswith(("crawler_", "headrace_"))
        ]
        assert not complaints


@pytest.mark.kafka
@pytest.mark.slow
def test_the_figures_are_those_of_the_crawl(watched: Watched) -> None:
    server, status = watched.server, watched.status

    def shows(query: str, least: float, most: float = float("inf")) -> None:
        """A scrape may come too late on a busy machine, and for a second there is nothing."""
        until(lambda: least <= total(server, query) <= most, 30, f"{query}: {least} to {most}, {total(server, query)}")

    for state in ("queued", "in_flight", "fetched", "redirected", "failed", "refused"):
        shows(f'crawler_urls{{state="{state}"}}', status[state], status[state])
    for counter in ("crawler_pages_fetched_total", "crawler_busiest_host_pages_total", "crawler_pages_stored_total"):
        shows(counter, status["fetched"])  # more if a fetcher had to give a partition away under way
    shows('crawler_http_status_total{code="404"}', 1)
    shows('crawler_fetch_phase_seconds_count{phase="first_byte"}', status["fetched"])
    partitions = 8
    shows("sum by (group) (headrace_lanes)", partitions * len(set(SERVICES)), partitions * len(set(SERVICES)))
    shows("headrace_restore_seconds_count", partitions)
    for group in set(SERVICES):
        shows(f'headrace_rebalances_total{{group="{group}"}}', 1)
    shows("headrace_dead_letters_total", 0, 0)
    shows("headrace_children_cpu_seconds_total", 0.01)
    shows("headrace_children_resident_memory_bytes", 1 << 20)
    shows('max(headrace_crawl_mode{mode="running"})', 1, 1)


@pytest.mark.kafka
@pytest.mark.slow
def test_each_process_of_a_fleet_writes_a_csv_of_its_own(watched: Watched) -> None:
    files = {path.name: path for path in (watched.workspace / "logs").iterdir()}
    slots = ("frontier-0", "fetcher-0", "fetcher-1", "parser-0", "storer-0")
    assert {f"metrics-1-{slot}.csv" for slot in slots} <= set(files)
    fetchers = [path.read_text() for name, path in files.items() if "-fetcher-" in name]
    assert all(text.startswith("timestamp,metric,value\n") for text in fetchers)
    assert all("crawler_pages_fetched_total" in text for text in fetchers)


def test_a_crawl_in_one_process_exports_all_of_it_but_what_only_kafka_has(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=3, pages=30)) as web:
        crawler = Crawler(tmp_path)
        process = crawler.begin(web.seeds(), "--delay", "0.5")
        try:
            until(lambda: len(web.requests()) > 6, 60, crawler.tail())
            found = re.search(r"127\.0\.0\.1:\d+", crawler.output.read_text())
            assert found is not None
            there = families(found[0])
        finally:
            kill(process)
    asked = {name for query in (*of_dashboards(), *of_rules()) for name in names(query.text) if ":" not in name}
    lacking = {bare(name) for name in asked - OF_PROMETHEUS} - {bare(name) for name in there}
    assert lacking == ONLY_KAFKA


def bare(name: str) -> str:
    """Of the family a series belongs to."""
    return re.sub("_(bucket|sum|count|total)$", "", name)
