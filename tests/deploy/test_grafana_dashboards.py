"""The dashboards as Grafana reads them: laid out, explained, and wired to the data source provisioned."""

import copy
import re
from collections.abc import Iterable
from itertools import combinations
from typing import Any

import pytest
import yaml

from tests.deploy.promql import (
    GRAFANA,
    PROMETHEUS,
    Query,
    dashboards,
    names,
    of_annotations,
    of_panels,
    of_rules,
    of_variables,
    panels,
    rules,
)

BOARDS = dashboards()
boards = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
METRICS = (GRAFANA.parents[1] / "docs/metrics.md").read_text(encoding="utf-8")
WIDTH = 24
_VARIABLE = re.compile(r"\$\{?([a-z_]\w*)")


def uid() -> str:
    [source] = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())["datasources"]
    return str(source["uid"])


def uids(part: Any) -> set[str]:
    """Of every data source named anywhere in a dashboard, but for Grafana's own."""
    if isinstance(part, list):
        return set().union(*map(uids, part)) if part else set()
    if not isinstance(part, dict):
        return set()
    own = part.get("datasource")
    found = {own["uid"]} if isinstance(own, dict) and own["type"] != "grafana" else set()
    return found.union(*map(uids, part.values()))


def overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return (
        one["x"] < other["x"] + other["w"]
        and other["x"] < one["x"] + one["w"]
        and one["y"] < other["y"] + other["h"]
        and other["y"] < one["y"] + one["h"]
    )


def test_there_are_the_crawl_and_the_pipeline() -> None:
    assert set(BOARDS) == {"crawl.json", "pipeline.json"}
    assert len({board["uid"] for board in BOARDS.values()}) == len(BOARDS)


@boards
def test_ids_are_unique_and_the_format_is_one_grafana_11_reads(board: dict[str, Any]) -> None:
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    assert board["schemaVersion"] >= 39
    assert board["id"] is None, "Grafana gives out its own"


@boards
def test_no_panel_lies_on_another_or_over_the_edge(board: dict[str, Any]) -> None:
    places = [(panel["title"], panel["gridPos"]) for panel in board["panels"]]
    for title, place in places:
        assert place["x"] + place["w"] <= WIDTH, title
    for (title, one), (other_title, other) in combinations(places, 2):
        assert not overlap(one, other), (title, other_title)


@boards
def test_each_panel_asks_something_has_a_unit_and_says_what_it_shows(board: dict[str, Any]) -> None:
    for panel in panels(board):
        assert panel["targets"], panel["title"]
        assert all(target["expr"].strip() for target in panel["targets"]), panel["title"]
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert len(panel["description"]) > 15, panel["title"]


@boards
def test_the_data_source_is_the_one_that_is_provisioned(board: dict[str, Any]) -> None:
    assert uids(board) == {uid()}


@boards
def test_rates_are_taken_over_what_grafana_says_or_over_minutes(board: dict[str, Any]) -> None:
    """Over less than four scrapes a rate has holes."""
    for panel in panels(board):
        for target in panel["targets"]:
            for window in re.findall(r"\[(.*?)\]", re.sub(r'"[^"]*"', "", target["expr"])):
                assert window in ("$__rate_interval", "5m", "15m", "24h"), (panel["title"], window)


@boards
def test_variables_that_are_used_are_there(board: dict[str, Any]) -> None:
    """One may use those before it."""
    known = {"__rate_interval", "__interval"}
    for variable in board["templating"]["list"]:
        assert set(_VARIABLE.findall(variable["query"]["query"])) <= known, variable["name"]
        known.add(variable["name"])
    assert known >= {"service", "instance"}
    texts = [target["expr"] for panel in panels(board) for target in panel["targets"]]
    texts += [annotation.get("expr", "") for annotation in board["annotations"]["list"]]
    assert {name for text in texts for name in _VARIABLE.findall(text)} <= known


def unknown(queries: Iterable[Query]) -> list[str]:
    """Metrics that neither a service exports, by the list in the docs, nor a rule records."""
    listed = set(re.findall(r"^\| `(\w+)` \| (\w+)", METRICS, re.MULTILINE))
    known = {name for name, _ in listed} | {rule["record"] for rule in rules("rules.yml")} | {"ALERTS", "up"}
    known |= {f"{name}_{part}" for name, kind in listed if kind == "histogram" for part in ("bucket", "sum", "count")}
    return [
        f"{query.where}: {name}"
        for query in queries
        for name in sorted(names(query.text) - known)
        if not name.startswith("process_")  # of the client library
    ]


def asked_by(board: dict[str, Any]) -> list[Query]:
    return [query for asked in (of_panels, of_variables, of_annotations) for query in asked("board", board)]


@boards
def test_panels_variables_and_annotations_ask_for_metrics_there_are(board: dict[str, Any]) -> None:
    assert unknown(asked_by(board)) == []
    assert unknown(of_rules()) == []


@boards
def test_a_metric_that_nobody_exports_is_found_wherever_it_is_asked_for(board: dict[str, Any]) -> None:
    broken = copy.deepcopy(board)
    text = 'label_values(crawler_invented_info{service=~"$service"}, instance)'
    broken["templating"]["list"][-1] |= {"query": {"query": text}, "definition": text}
    broken["annotations"]["list"][-1]["expr"] = "changes(crawler_invented_total[5m]) > 0"
    assert unknown(asked_by(broken)) == [
        "board: $instance: crawler_invented_info",
        "board: annotation Alerts: crawler_invented_total",
    ]


@boards
def test_the_red_marks_are_of_every_alert_there_is(board: dict[str, Any]) -> None:
    [annotation] = of_annotations("board", board)
    matcher = re.search(r'alertname=~"([^"]+)"', annotation.text)
    assert matcher is not None
    assert [rule["alert"] for rule in rules("alerts.yml") if not re.fullmatch(matcher[1], rule["alert"])] == []


def test_grafana_scrapes_as_often_as_prometheus_does() -> None:
    [source] = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())["datasources"]
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    assert source["jsonData"]["timeInterval"] == config["global"]["scrape_interval"]
