"""What our dashboards, recording rules and alerts ask Prometheus for."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy"
PROMETHEUS, GRAFANA = DEPLOY / "prometheus", DEPLOY / "grafana"
_GRAFANA = {"$__rate_interval": "5m", "$__interval": "15s", "$service": ".*", "$instance": ".*"}
_NO_NAME = re.compile(
    r"""
      "(?:[^"\\]|\\.)*" | '(?:[^'\\]|\\.)*'                     # strings
    | \{[^}]*\} | \[[^\]]*\]                                    # matchers, ranges
    | \b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)   # lists of labels
    | \#[^\n]*                                                  # comments
    | \b(?:and|or|unless|offset|bool|inf|nan)\b
    | \b\d[\w.]*                                                # numbers and durations
    """,
    re.VERBOSE | re.IGNORECASE,
)
_LABEL_VALUES = re.compile(r"label_values\((?P<series>.+),\s*(?P<label>\w+)\)")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*(?!\s*\(|[a-zA-Z0-9_:])")


class Query(NamedTuple):
    where: str
    text: str


def names(query: str) -> set[str]:
    """Of the metrics in it: what is no string, matcher, range, label, number, keyword or function."""
    strings_gone = re.sub(r'"(?:[^"\\]|\\.)*"', '""', query)
    return set(_NAME.findall(_NO_NAME.sub(" ", strings_gone)))


def rules(file: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load((PROMETHEUS / file).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboards() -> dict[str, dict[str, Any]]:
    return {path.name: json.loads(path.read_text()) for path in sorted((GRAFANA / "dashboards").glob("*.json"))}


def panels(dashboard: dict[str, Any]) -> list[dict[str, Any]]:
    """Without the rows, which show nothing."""
    return [panel for panel in dashboard["panels"] if panel["type"] != "row"]


def of_dashboards() -> Iterator[Query]:
    for file, dashboard in dashboards().items():
        yield from of_panels(file, dashboard)
        yield from of_variables(file, dashboard)
        yield from of_annotations(file, dashboard)


def of_panels(file: str, dashboard: dict[str, Any]) -> Iterator[Query]:
    for panel in panels(dashboard):
        for target in panel["targets"]:
            yield Query(f"{file}: {panel['title']}", filled(target["expr"]))


def of_variables(file: str, dashboard: dict[str, Any]) -> Iterator[Query]:
    """As a query that has a result for each value: of what has the label."""
    for variable in dashboard["templating"]["list"]:
        if variable["type"] != "query":
            continue
        where, text = f"{file}: ${variable['name']}", variable["query"]["query"]
        asked = _LABEL_VALUES.fullmatch(text)
        assert asked is not None, f"{where}: {text} is no label_values(metric, label)"
        assert variable["definition"] == text, f"{where}: Grafana shows the one and asks the other"
        label = asked["label"]
        yield Query(where, filled(f"group by ({label}) ({asked['series']}) unless on ({label}) vector(1)"))


def of_annotations(file: str, dashboard: dict[str, Any]) -> Iterator[Query]:
    for annotation in dashboard["annotations"]["list"]:
        if annotation["datasource"]["type"] == "prometheus":
            yield Query(f"{file}: annotation {annotation['name']}", filled(annotation["expr"]))


def of_rules() -> Iterator[Query]:
    for file in ("rules.yml", "alerts.yml"):
        for rule in rules(file):
            yield Query(f"{file}: {rule.get('record') or rule['alert']}", rule["expr"])


def filled(query: str) -> str:
    """As Grafana sends it: its variables replaced."""
    for name, value in _GRAFANA.items():
        query = query.replace(name, value)
    return query
