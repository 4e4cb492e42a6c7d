"""The dashboards as Grafana reads them: laid out, explained, and wired to the data source provisioned."""

import re
from itertools import combinations
from typing import Any

import pytest
import yaml

from tests.deploy.promql import GRAFANA, PROMETHEUS, dashboards, panels

BOARDS = dashboards()
boards = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
WIDTH = 24


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
    known = {variable["name"] for variable in board["templating"]["list"]}
    assert known == {"service", "instance"}
    used = {
        name
        for panel in panels(board)
        for target in panel["targets"]
        for name in re.findall(r"\$([a-z]\w*)", target["expr"])
    }
    assert used <= known


def test_grafana_scrapes_as_often_as_prometheus_does() -> None:
    [source] = yaml.safe_load((GRAFANA / "provisioning/datasources/prometheus.yml").read_text())["datasources"]
    config = yaml.safe_load((PROMETHEUS / "prometheus.yml").read_text())
    assert source["jsonData"]["timeInterval"] == config["global"]["scrape_interval"]
