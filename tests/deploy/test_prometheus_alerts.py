"""Alerts, judged by promtool: each fires where it should and stays silent where it must; and each says what to do."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.promql import PROMETHEUS, rules
from tests.prometheus_server import program

CASES = Path(__file__).with_name("alerts_test.yml")
OPERATIONS = PROMETHEUS.parents[1] / "docs" / "operations.md"
ALERTS = rules("alerts.yml")
NAMES = [rule["alert"] for rule in ALERTS]


def checks() -> list[dict[str, Any]]:
    return [check for test in yaml.safe_load(CASES.read_text())["tests"] for check in test["alert_rule_test"]]


def promtool_test(cases: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([program("promtool"), "test", "rules", str(cases)], capture_output=True, text=True)


def test_every_alert_does_what_its_cases_say() -> None:
    done = promtool_test(CASES)
    assert done.returncode == 0, done.stdout + done.stderr


def test_an_alert_that_no_longer_fires_fails_its_cases(tmp_path: Path) -> None:
    whole = yaml.safe_load(CASES.read_text())
    whole["rule_files"] = ["rules.yml", "alerts.yml"]
    whole["tests"] = [test for test in whole["tests"] if test["name"].startswith("HeadraceErrorRate")]
    (tmp_path / "cases.yml").write_text(yaml.safe_dump(whole))
    (tmp_path / "rules.yml").write_text((PROMETHEUS / "rules.yml").read_text())
    alerts = (PROMETHEUS / "alerts.yml").read_text()
    assert alerts.count("ratio_rate2m > 0.2") == 1
    (tmp_path / "alerts.yml").write_text(alerts.replace("ratio_rate2m > 0.2", "ratio_rate2m > 0.9"))
    done = promtool_test(tmp_path / "cases.yml")
    assert done.returncode != 0
    assert "HeadraceErrorRate" in done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_each_alert_has_a_case_that_fires_and_one_that_does_not(name: str) -> None:
    found = [bool(check["exp_alerts"]) for check in checks() if check["alertname"] == name]
    assert True in found, f"{name} is never seen firing"
    assert False in found, f"{name} is never seen silent"


def test_cases_are_of_alerts_there_are() -> None:
    assert {check["alertname"] for check in checks()} == set(NAMES)


@pytest.mark.parametrize("alert", ALERTS, ids=NAMES)
def test_each_alert_says_how_bad_it_is_and_what_to_do(alert: dict[str, Any]) -> None:
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    notes = alert["annotations"]
    assert notes["summary"]
    assert "$value" in notes["description"]
    anchor = "alert-" + "-".join(word.lower() for word in re.findall("[A-Z][a-z]+", alert["alert"])[1:])
    assert notes["runbook_url"] == f"docs/operations.md#{anchor}"
    headings = re.findall(r"^### (.+)$", OPERATIONS.read_text(), re.MULTILINE)
    assert anchor in [re.sub(r"[^a-z -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_rules_are_recorded_before_alerts_look_at_them() -> None:
    """promtool evaluates groups in no order of its own, and an alert a minute late is another alert."""
    groups = [
        group["name"]
        for file in ("rules.yml", "alerts.yml")
        for group in yaml.safe_load((PROMETHEUS / file).read_text())["groups"]
    ]
    assert yaml.safe_load(CASES.read_text())["group_eval_order"] == groups
