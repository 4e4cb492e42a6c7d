"""The benchmark of the frontier still runs, and says what it was asked; how fast it was is not judged here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.figures import Figure, table
from benchmarks.frontier.links import Web
from benchmarks.frontier.rig import Rig, Spent

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("value", "bar", "verdict"),
    [(2.0, ">= 2", "ok"), (1.9, ">= 2", "MISSED"), (5.0, "< 5", "MISSED"), (0.0, "== 0", "ok"), (9.0, "", "")],
)
def test_a_figure_is_judged_by_its_bar(value: float, bar: str, verdict: str) -> None:
    assert Figure("what", "case", value, "s", bar).verdict == verdict


def test_a_table_has_a_line_for_each_figure() -> None:
    lines = table([Figure("ingest", "few", 81_234.0, "links/s", ">= 80000"), Figure("x", "y", 0.5, "s")]).splitlines()
    assert len(lines) == 4
    assert lines[2].split() == ["ingest", "few", "81,234", "links/s", ">=", "80000", "ok"]


def test_a_web_finds_its_share_of_known_urls_again() -> None:
    web = Web(hosts=7)
    known = {link.key for batch in web.new(1_000) for link in batch}
    assert len(known) == 1_000
    found = [link.key for batch in web.found(2_000, duplicates=0.9) for link in batch]
    new = set(found) - known
    assert len(found) == 2_000
    assert len(new) == web.known - 1_000
    assert 100 < len(new) < 300


async def test_a_fill_is_known_and_every_release_is_answered(tmp_path: Path) -> None:
    rig, web = await Rig.open(tmp_path / "log"), Web(hosts=20)
    assert await rig.find(web.new(200)) == 200
    await rig.read_all(Spent())
    await rig.learn_robots()
    assert rig.robots == 20
    rig.desired.mode("running")
    pages = 0
    await rig.release(Spent())
    while answered := await rig.answer():
        pages += answered
        while any(await rig.turn()):
            pass
    await rig.close()
    assert pages == 200 - 20  # the round that found no robots.txt left took a page of each host


def test_every_case_gives_its_figures(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.frontier", "--known", "2000", "4000", "--links", "2000"]
    command += ["--releases", "200", "--hosts", "20x50", "--queued", "2000", "--json", str(tmp_path / "figures.json")]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    figures = json.loads((tmp_path / "figures.json").read_text())["figures"]
    assert {figure["group"] for figure in figures} == {
        *("ingest, 95 % duplicates", "ingest", "fill, all new", "seen entry", "whole state", "release"),
        *("restart after SIGKILL", "one big host"),
    }
    assert all(figure["value"] > 0 for figure in figures if figure["unit"] != "%")  # a cost may come out below nothing


def test_an_unknown_case_is_named() -> None:
    command = [sys.executable, "-m", "benchmarks.frontier", "ingets"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "ingets" in done.stderr
