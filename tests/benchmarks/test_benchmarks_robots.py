"""The side-by-side of robots.txt parsers: ours is right on every core case."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.robots.__main__ import SITE
from benchmarks.robots.cases import CORE, STARS, Case
from benchmarks.robots.parsers import PARSERS, filtered, verdicts
from benchmarks.robots.real import near

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("case", CORE, ids=lambda case: f"{case.area}-{case.path}")
def test_our_rules_decide_every_core_case(case: Case) -> None:
    assert verdicts(filtered, case.text, case.agent, [SITE + case.path]) == [case.allowed]


def test_a_rule_of_many_stars_does_not_hold_us_up() -> None:
    text, path = STARS
    assert verdicts(filtered, text, "headrace", [SITE + path]) == [True]


def test_a_parser_that_does_not_end_is_cut_off() -> None:
    text, path = STARS
    assert verdicts(PARSERS["robotexclusionrulesparser"], text, "headrace", [SITE + path], seconds=0.1) is None


def test_urls_are_asked_for_near_the_rules_of_a_file() -> None:
    text = b"User-agent: *\nDisallow: /a/*.php$ # why\nAllow: /\nDisallow: nonsense\nSitemap: http://x.example/s\n"
    assert near(text) == [SITE + path for path in ("/a/x.php", "/a/x.phpz", "/", "/z", "/")]


def test_the_table_compares_all_parsers_on_the_files_of_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    (folder / "one.example").write_bytes(b"User-agent: *\nDisallow: /a\nAllow: /a/b\n")
    command = [sys.executable, "-m", "benchmarks.robots", "--real", str(folder), "--json", str(tmp_path / "figures")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    figures = json.loads((tmp_path / "figures").read_text())["figures"]
    by_group = {group: [f["case"] for f in figures if f["group"] == group] for group in ("core cases", "real files")}
    assert by_group == {"core cases": list(PARSERS), "real files": list(PARSERS)}
