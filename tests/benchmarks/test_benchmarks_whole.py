"""The benchmark of whole crawls still runs, and takes no bad run for a figure; how fast it was is not judged here."""

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace

from benchmarks.web.expected import expected
from benchmarks.web.log import Request
from benchmarks.web.running import RunningWeb
from benchmarks.web.site import Site
from benchmarks.web.spec import WebSpec
from benchmarks.whole import compare, stages
from benchmarks.whole.command import NAME, crawled
from benchmarks.whole.measure import Watch, ended, reap, start
from benchmarks.whole.plot import plot
from benchmarks.whole.runs import Arena, Outcome, Run, judge, run
from benchmarks.whole.stages import Sample

ROOT = Path(__file__).parents[2]
GOOD = Run(
    crawler="headrace embedded",
    size="3 KB",
    cores=1,
    pages=100,
    seconds=2.0,
    cpu={"crawler": 0.1},
    beside={},
    startup=1.0,
    rss=200.0,
    beside_rss=0.0,
    stored=1_000_000,
    lost=0,
    duplicates=0,
    robots=4,
)


def peer(name: str, cpu: float) -> Run:
    return replace(GOOD, crawler=name, cpu={"crawler": cpu}, stored=0)


def test_a_smoke_of_it_gives_table_json_and_picture(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.whole", "--smoke", "--only", "embedded", "--profile", str(tmp_path)]
    command += ["--json", str(tmp_path / "figures.json"), "--plot", str(tmp_path / "plot.svg")]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    said = json.loads((tmp_path / "figures.json").read_text())
    runs = [(one["size"], one["cores"], one["pages"], one["lost"], one["failed"]) for one in said["runs"]]
    cores = sorted({one["cores"] for one in said["runs"]})
    assert sorted(runs) == [(size, number, 40, 0, "") for size in ("3 KB", "50 KB") for number in cores]
    assert all(one["pages_per_cpu_second"] > 0 and one["stored"] > 0 for one in said["runs"])
    cases = {(figure["group"], figure["case"]) for figure in said["figures"]}
    assert {("3 KB", "headrace embedded: peak RSS"), ("CPU, 50 KB", "fetch"), ("CPU, 3 KB", "total")} <= cases
    assert "headrace embedded" in done.stdout
    assert "µs a page" in (tmp_path / "3KB.txt").read_text()
    assert ElementTree.parse(tmp_path / "plot.svg").getroot().tag.endswith("svg")


def test_ratios_are_held_to_their_bars_by_the_median_of_the_rounds() -> None:
    runs = [
        *(replace(GOOD, cpu={"crawler": cpu, "worker": 0.0}) for cpu in (0.1, 0.11, 9.0)),
        replace(GOOD, cores=2, seconds=1.0),
        replace(GOOD, crawler="headrace on Kafka", cpu={"fetcher": 0.1, "storer": 0.1}, beside={"broker": 7.0}),
        peer("Scrapy 2.19.0", 0.88),
        peer("Colly 2.3.0", 0.1),
    ]
    found = {figure.case: (round(figure.value, 2), figure.verdict) for figure in compare.figures(runs)}
    assert found["headrace embedded / Scrapy 2.19.0"] == (8.0, "ok")
    assert found["headrace embedded / Colly 2.3.0"] == (0.91, "MISSED")
    assert found["headrace on Kafka / Scrapy 2.19.0"] == (4.4, "MISSED")
    assert found["headrace embedded: two cores / one"] == (2.0, "ok")
    assert found["headrace embedded: peak RSS"] == (200.0, "ok")


def test_a_failed_run_is_named_and_is_no_figure() -> None:
    bad = replace(GOOD, cpu={"crawler": 0.000_1}, failed="3 URLs lost of 100")
    assert compare.figures([bad]) == []
    assert compare.failures([GOOD, bad]) == ["FAILED: headrace embedded, 3 KB, one core: 3 URLs lost of 100"]
    (line,) = compare.lines([bad, GOOD])
    assert line.runs == [GOOD]


def test_the_log_of_the_web_says_what_was_lost_and_what_was_asked_for_twice() -> None:
    site = Site(WebSpec(hosts=2, pages=3, port=4000))
    wanted = expected(site, [site.graph.url(0)])
    asked = [page.url.removeprefix("http://").partition("/") for page in wanted]
    requests = [Request(0.0, address.partition(":")[0], "/" + path, 200) for address, _, path in asked]
    requests += [Request(0.0, site.graph.addresses[0], "/robots.txt", 200)] * 2
    whole = judge(wanted, [*requests, requests[0]], 4000)
    assert (whole.pages, whole.lost, whole.duplicates, whole.robots, whole.strange) == (6, 0, 1, 2, 0)
    less = judge(wanted, [*requests[1:], Request(0.0, site.graph.addresses[1], "/p/99", 404)], 4000)
    assert (less.pages, less.lost, less.duplicates, less.strange) == (5, 1, 0, 1)


class Careless:
    """Asks for the front page and is content."""

    name = "careless"

    def crawl(self, arena: Arena, folder: Path, cores: set[int]) -> Outcome:
        code = "import sys, time, urllib.request as r; r.urlopen(sys.argv[1]).read(); time.sleep(0.2)"
        return crawled([sys.executable, "-c", code, arena.seed], arena, folder, cores, {})


def test_a_crawler_that_loses_urls_has_failed_whatever_its_exit_code(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=2, pages=3)) as web:
        arena = Arena(web, "3 KB", web.expected(), web.url(), {0}, tmp_path)
        done = run(Careless(), arena, {0}, "careless")
    assert (done.pages, done.lost, done.failed) == (1, 5, "5 URLs lost of 6")


def test_a_command_that_fails_or_leaves_processes_behind_has_failed(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=1, pages=1)) as web:
        arena = Arena(web, "3 KB", web.expected(), web.url(), {0}, tmp_path)
        ask = f"{sys.executable} -c 'import urllib.request as r; r.urlopen(\"{arena.seed}\").read()'"
        outcome = crawled(["sh", "-c", f"{ask}; sleep 60 & sleep 0.3; exit 3"], arena, tmp_path, {0}, {})
    assert [problem.partition(":")[0] for problem in outcome.problems] == [
        "ended with code 3",
        "1 processes were left behind",
    ]


def test_cpu_is_that_of_all_processes_those_that_ended_too(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    burn = "import time\nwhile time.process_time() < 0.5: pass"
    child = f"import subprocess, sys, time; time.sleep(0.3); subprocess.run([sys.executable, '-c', {burn!r}]); {burn}"
    process = start([sys.executable, "-c", child], cores={0}, cwd=tmp_path, log=tmp_path / "out", env={})
    try:
        with Watch({NAME: process.pid}, log) as watch:
            log.write_text("a request\n")
            assert ended(process, 60)
            spent = watch.spent()
    finally:
        assert reap(process) == 0
    assert 0.9 < spent.cpu[NAME] + spent.before < 2.0
    assert 5 < spent.rss[NAME] < 500
    assert spent.together == spent.rss[NAME]


@pytest.mark.parametrize(
    ("where", "stage"),
    [
        ("/x/headrace_runtime/streams/embedded/state.py:get|/x/headrace_frontier/seen.py:look", "seen lookup"),
        ("/x/headrace_runtime/streams/embedded/commit.py:commit|/x/headrace_frontier/turn.py:run", "log, state"),
        ("/x/httpx/_models.py:__init__|/x/headrace_fetcher/fetch.py:fetch", "fetch"),
        ("/usr/lib/json.py:loads", "loop and the rest"),
        ("thread:pack", "zstd, sha256"),
    ],
)
def test_a_sample_belongs_to_the_innermost_stage(where: str, stage: str) -> None:
    assert stages.stage_of(where) == stage


def test_samples_add_up_to_a_page() -> None:
    worker = Sample(["python", "-P", "-m", "headrace_parser.worker", "3"], {"/x/headrace_parser/page.py:parse": 0.2})
    main = Sample(["python", "headrace", "crawl"], {"/x/httpx/_models.py:__init__": 0.1, "thread:pack": 0.1})
    found = {figure.case: figure.value for figure in stages.figures([worker, main], "3 KB", pages=100)}
    processes = {"of the total, parser worker": 2.0, "of the total, crawl": 2.0}
    assert found == {"parse": 2.0, "fetch": 1.0, "zstd, sha256": 1.0, "total": 4.0} | processes
    assert next(stages.by_function([worker, main])) == ("parser worker", "headrace_parser/page.py:parse", 0.2)


def test_the_picture_has_a_bar_for_each_crawler_of_one_core() -> None:
    found = compare.lines([GOOD, replace(GOOD, cores=2), peer("Scrapy <2.19>", 1.0)])
    root = ElementTree.fromstring(plot(found, "today & here"))
    names = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert len(list(root.iter("{http://www.w3.org/2000/svg}rect"))) == 2
    assert {"Scrapy <2.19>", "headrace embedded", "today & here"} <= set(names)


def test_an_unknown_crawler_is_named() -> None:
    command = [sys.executable, "-m", "benchmarks.whole", "--only", "embeded"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "embeded" in done.stderr
