"""The torture in seconds, and that its judge can find what it is there to find."""

import hashlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from msgspec import structs

from benchmarks.figures import Figure, table
from benchmarks.torture import embedded_case, kafka_case
from benchmarks.torture.__main__ import main
from benchmarks.torture.fleet import Process
from benchmarks.torture.judge import Evidence, course, judged
from benchmarks.torture.order import SHORT, Order
from benchmarks.torture.plan import Fault, plan
from benchmarks.torture.repeats import SETTLING, repeats
from benchmarks.torture.storm import Met, Outcome, Storm
from benchmarks.web.expected import Expected, split, walk
from benchmarks.web.log import Request
from benchmarks.web.running import RunningWeb
from benchmarks.web.site import Site
from benchmarks.web.spec import Errors, Redirects, RobotsKinds, WebSpec

PORT, DELAY = 8_000, 0.5
SPEC = WebSpec(
    hosts=5,
    pages=12,
    port=PORT,
    errors=Errors(missing=0.1),
    redirects=Redirects(inside=0.1),
    robots=RobotsKinds(disallow=0.5),
)


def missed(figures: list[Figure]) -> set[str]:
    return {figure.case for figure in figures if figure.verdict == "MISSED"}


# ---- whole crawls ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_embedded_killed_a_few_times_nothing_is_lost(tmp_path: Path) -> None:
    figures = embedded_case.case(SHORT, tmp_path)
    assert not missed(figures), table(figures)


@pytest.mark.kafka
@pytest.mark.slow
def test_services_on_kafka_killed_and_paused_lose_nothing(tmp_path: Path, kafka_url: str) -> None:
    with RunningWeb(SHORT.web, folder=tmp_path) as web:
        faults = kafka_case.services_plan(SHORT, web, "kafka", kills=SHORT.kills, stops=1)
        figures = kafka_case.tortured("kafka", SHORT, tmp_path, web, kafka_url, faults)
    assert not missed(figures), table(figures)


def test_a_case_that_does_not_end_in_time_fails_with_what_it_hung_on_and_leaves_nothing(tmp_path: Path) -> None:
    order = structs.replace(SHORT, kills=1, seconds=3.0, delay=5.0)
    figures = {figure.case: figure for figure in embedded_case.case(order, tmp_path)}
    assert figures["not complete in time"].verdict == "MISSED"
    assert "faults not met" in figures["not complete in time"].note
    assert figures["outlived their parents"].value == 0


def test_an_unknown_case_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["kafak"])
    assert "kafak" in capsys.readouterr().err


# ---- the judge -------------------------------------------------------------------------------------------------------


def perfect(folder: Path) -> Evidence:
    """What an undisturbed crawl leaves behind, made from the model alone."""
    site = Site(SPEC)
    walked = walk(site, [site.graph.url(0)])
    rows = [_row(site, page, folder) for page in walked.requested]
    rows += [{"url": url, "http_status": None, "content_sha256": ""} for url in walked.refused]
    asked = [(address, "/robots.txt", 200) for address in site.graph.addresses]
    asked += [(*split(page.url), page.status) for page in walked.requested]
    served = [page.status for page in walked.requested]
    counts = {
        "fetched": served.count(200),
        "failed": served.count(404),
        "redirected": sum(300 <= status < 400 for status in served),
        "refused": len(walked.refused),
        "queued": 0,
        "in_flight": 0,
    }
    return Evidence(
        walk=walked,
        rows=rows,
        workspace=folder,
        status={**counts, "discovered": sum(counts.values()), "lag": {}},
        requests=[Request(i * DELAY, ip, path, status) for i, (ip, path, status) in enumerate(asked)],
        port=PORT,
        delay=DELAY,
        met=[],
        excusing=("fetcher",),
        audit={"count": 0, "differences": [], "urls": len(rows)},
    )


def _row(site: Site, page: Expected, folder: Path) -> dict[str, Any]:
    row: dict[str, Any] = {"url": page.url, "http_status": page.status, "content_sha256": page.sha256}
    row |= {"content_bytes": page.size, "stored_path": ""}
    if page.status == 200:
        body = site.answer(*split(page.url), {}, earlier=1).body
        row["stored_path"] = f"{page.sha256}.zst"
        (folder / row["stored_path"]).write_bytes(zstandard.ZstdCompressor().compress(body))
        assert hashlib.sha256(body).hexdigest() == page.sha256
    return row


def test_the_judge_passes_a_perfect_crawl(tmp_path: Path) -> None:
    evidence = perfect(tmp_path)
    assert {page.status for page in evidence.walk.requested} >= {200, 404}
    assert evidence.walk.refused
    figures = judged("perfect", evidence)
    assert not missed(figures), table(figures)
    assert [figure.value for figure in figures if figure.case == "smallest gap"] == [0.5]


def _without_a_row(evidence: Evidence) -> Evidence:
    return structs.replace(evidence, rows=evidence.rows[1:])


def _with_a_row_twice(evidence: Evidence) -> Evidence:
    return structs.replace(evidence, rows=[*evidence.rows, evidence.rows[0]])


def _with_a_row_from_nowhere(evidence: Evidence) -> Evidence:
    return structs.replace(evidence, rows=[*evidence.rows, {**evidence.rows[0], "url": "http://127.10.0.1:8000/p/999"}])


def _with_a_wrong_hash(evidence: Evidence) -> Evidence:
    return structs.replace(evidence, rows=[{**evidence.rows[0], "content_sha256": "0" * 64}, *evidence.rows[1:]])


def _with_a_damaged_body(evidence: Evidence) -> Evidence:
    path = evidence.workspace / evidence.rows[0]["stored_path"]
    path.write_bytes(zstandard.ZstdCompressor().compress(b"something else"))
    return evidence


def _without_a_body(evidence: Evidence) -> Evidence:
    (evidence.workspace / evidence.rows[0]["stored_path"]).unlink()
    return evidence


def _status(**changes: Any) -> Callable[[Evidence], Evidence]:
    return lambda evidence: structs.replace(evidence, status={**evidence.status, **changes})


def _repeated(evidence: Evidence) -> Evidence:
    return structs.replace(evidence, requests=[*evidence.requests, structs.replace(evidence.requests[-1], t=1e6)])


def _too_soon(evidence: Evidence) -> Evidence:
    last = evidence.requests[-1]
    return structs.replace(evidence, requests=[*evidence.requests, structs.replace(last, t=last.t + 0.4, path="/new")])


def _asked_what_robots_forbids(evidence: Evidence) -> Evidence:
    ip, path = split(next(iter(evidence.walk.refused)))
    return structs.replace(evidence, requests=[*evidence.requests, Request(1e6, ip, path, 200)])


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        (_without_a_row, "URLs without a row"),
        (_with_a_row_twice, "URLs with two rows"),
        (_with_a_row_from_nowhere, "rows of nothing that was served"),
        (_with_a_wrong_hash, "rows with a wrong status, hash or size"),
        (_with_a_damaged_body, "bodies that are not as served"),
        (_without_a_body, "bodies that are not as served"),
        (_status(discovered=1), "discovered less the sum of states"),
        (_status(refused=99), "counters that differ from the rows"),
        (_status(in_flight=1), "still queued or in flight"),
        (_status(lag={"storer < pages.parsed": 2}), "lag"),
        (_repeated, "repeats that no fault explains"),
        (_too_soon, "gaps under the delay"),
        (_asked_what_robots_forbids, "requests robots.txt forbids"),
    ],
)
def test_the_judge_finds(damage: Callable[[Evidence], Evidence], found: str, tmp_path: Path) -> None:
    assert found in missed(judged("damaged", damage(perfect(tmp_path))))


def test_the_judge_finds_differences_in_the_frontiers_own_count(tmp_path: Path) -> None:
    evidence = structs.replace(perfect(tmp_path), audit={"count": 1, "differences": ["queued"], "urls": 9})
    assert missed(judged("damaged", evidence)) == {"differences in `frontier check`"}


def test_processes_that_ended_or_stayed_and_a_crawl_out_of_time_are_missed() -> None:
    outcome = Outcome([], ["parser 1, exit 1"], 100.0, "the storer is behind")
    assert missed(course("course", outcome, bound=60, left=1)) == {
        *("not complete in time", "took", "ended by themselves", "outlived their parents"),
    }


def test_kills_after_the_last_request_do_not_count(tmp_path: Path) -> None:
    evidence = structs.replace(perfect(tmp_path), kills=1)
    last = evidence.requests[-1].t
    for began, found in ((last - 1, set()), (last + 1, {"killed while it crawled"})):
        met = [Met("kill", "parser 1", began, began + 1)]
        assert missed(judged("late", structs.replace(evidence, met=met))) == found


def test_only_faults_of_those_who_ask_excuse_a_repeat(tmp_path: Path) -> None:
    evidence = _repeated(perfect(tmp_path))
    between = evidence.requests[-2].t + 1
    for who, found in (("fetcher 2", set()), ("storer 1", {"repeats that no fault explains"})):
        assert missed(judged("again", structs.replace(evidence, met=[Met("kill", who, between, between)]))) == found


# ---- repeats and their excuses ---------------------------------------------------------------------------------------


def _asked(*times: float, status: int = 200) -> list[Request]:
    return [Request(t, "127.10.0.1", "/p/1", status) for t in times]


def test_a_repeat_with_a_fault_between_is_explained_and_one_without_is_not() -> None:
    kill = Met("kill", "fetcher 1", 10.0, 11.0)
    found = repeats(_asked(9.0, 12.0), [kill], PORT)
    assert (found.times, found.unexplained, found.most_of_one_fault) == ({2: 1}, [], 1)
    assert repeats(_asked(11.0 + SETTLING + 1, 20.0), [kill], PORT).unexplained
    assert repeats(_asked(5.0, 9.0), [kill], PORT).unexplained


def test_one_kill_does_not_explain_three_requests_of_which_two_came_after_it() -> None:
    kill = Met("kill", "fetcher 1", 10.0, 10.1)
    assert len(repeats(_asked(9.0, 13.0, 16.0), [kill], PORT).unexplained) == 1


def test_a_request_after_a_failure_that_may_pass_is_a_retry() -> None:
    assert repeats([*_asked(1.0, status=500), *_asked(2.0)], [], PORT).found == []


def test_what_failed_and_was_done_again_has_its_retry_on_top() -> None:
    asked = [*_asked(8.0, status=500), *_asked(18.0, 19.0)]
    kill = Met("kill", "fetcher 1", 10.0, 11.0)
    assert repeats(asked, [kill], PORT).unexplained == []
    assert len(repeats(asked, [], PORT).unexplained) == 1


def test_two_spellings_of_one_page_are_one_page() -> None:
    spelled = [Request(float(i), "127.10.0.1", path, 200) for i, path in enumerate(("/p/1", "/p/1?utm_source=x"))]
    assert len(repeats(spelled, [], PORT).unexplained) == 1


# ---- the plan and how it is carried out ------------------------------------------------------------------------------


def _plan(seed: int) -> list[Fault]:
    return plan(random.Random(seed), 1_000, ["a", "b", "c"], kills=9, stops=3, down=(0.0, 1.0), paused=(2.0,))


def test_the_same_seed_is_the_same_plan_and_everyone_has_a_share() -> None:
    assert _plan(1) == _plan(1) != _plan(2)
    faults = _plan(1)
    assert [fault.what for fault in faults].count("kill") == 9
    assert {name: sum(fault.who == name for fault in faults) for name in "abc"} == {"a": 4, "b": 4, "c": 4}
    assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
    assert all(0 < fault.at < 900 for fault in faults)


def test_the_web_of_an_order_has_as_many_pages_as_asked_for() -> None:
    for pages in (SHORT.pages, 3_000, 10_000):
        web = Order(pages=pages).web
        assert 0.9 * pages <= web.hosts * web.pages <= pages


class Dummy:
    """A target that only notes what is done to it."""

    def __init__(self, codes: list[int] | None = None) -> None:
        self.name, self.done = "dummy", list[str]()
        self._codes = codes or []

    def start(self) -> None:
        self.done.append("start")

    def kill(self) -> None:
        self.done.append("kill")

    def pause(self, paused: bool) -> None:
        self.done.append("pause" if paused else "continue")

    def ended(self) -> int | None:
        return self._codes.pop(0) if self._codes else None

    def ready(self) -> bool:
        return True

    def tail(self) -> str:
        return "its last words"


def test_a_plan_is_carried_out_in_order_and_the_end_waits_for_everyone_to_be_back() -> None:
    faults = [
        Fault(1, 0.0, "kill", "dummy", 0.05),
        Fault(2, 0.0, "stop", "dummy", 0.05),
        Fault(3, 0, "kill", "dummy", 0),
    ]
    dummy = Dummy()
    outcome = Storm([dummy], faults, lambda: 10, str, 10.0).run()
    assert dummy.done == ["kill", "start", "pause", "continue", "kill", "start"]
    assert [(met.what, met.back - met.began >= 0) for met in outcome.met] == [
        ("kill", True),
        ("stop", True),
        ("kill", True),
    ]
    assert outcome.hung == ""


def test_a_fault_whose_target_is_not_ready_lets_others_pass() -> None:
    class Late(Dummy):
        def ready(self) -> bool:
            return "kill" in dummy.done

    late, dummy = Late(), Dummy()
    late.name = "late"
    faults = [Fault(1, 0.0, "kill", "late", 0.0), Fault(2, 0.0, "kill", "dummy", 0.0)]
    outcome = Storm([late, dummy], faults, lambda: 10, str, 10.0).run()
    assert [met.who for met in outcome.met] == ["dummy", "late"]


def test_who_ends_by_itself_is_started_again_and_told() -> None:
    dummy = Dummy([1])
    outcome = Storm([dummy], [], lambda: 0, str, 10.0).run()
    assert dummy.done == ["start"]
    assert outcome.died == ["dummy, exit 1: its last words"]


def test_an_end_without_error_is_the_end_only_where_that_means_complete() -> None:
    finished = Dummy([0])
    assert Storm([finished], [], lambda: 0, lambda: "never", 10.0, finishing=True).run().hung == ""
    assert finished.done == []
    outcome = Storm([Dummy([0])], [], lambda: 0, str, 10.0).run()
    assert outcome.died == ["dummy, exit 0: its last words"]


def test_time_up_is_told_with_what_it_waited_for() -> None:
    assert Storm([Dummy()], [], lambda: 0, lambda: "the parser is behind", 0.1).run().hung == "the parser is behind"
    fault = Fault(5, 0.0, "kill", "dummy", 0)
    assert "1 faults not met" in Storm([Dummy()], [fault], lambda: 0, str, 0.1).run().hung


def test_a_process_is_killed_paused_and_started_again_by_name(tmp_path: Path) -> None:
    process = Process("sleeper 1", ["sleep", "60"], {"PATH": "/usr/bin:/bin"}, tmp_path)
    process.start()
    assert process.ready()
    process.pause(True)
    process.kill()
    assert not process.ready()
    assert process.ended() is None, "it did not end by itself"
    process.start()
    process.ask_to_end()
    process.end()
    assert len(process.groups) == 2
    assert process.log.read_text().count("started at") == 2
