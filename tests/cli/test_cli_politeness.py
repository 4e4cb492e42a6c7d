"""`headrace politeness prove` and the history in `headrace show`, as a user types them."""

import json
from pathlib import Path

import msgspec
import pytest

from headrace_runtime.streams.seams import Record
from headrace_schemas import codec
from headrace_schemas.messages import Failed, Fetched, FetchResult, Outcome, Phases, Robots, TaskKind
from headrace_schemas.settings import Settings
from headrace_schemas.urls import Canonicaliser
from headrace_storer.handler import handle
from headrace_storer.index import open_index
from tests.headrace_command import headrace

AT = 1_700_000_000.0


def asked(
    url: str, start: float, kind: TaskKind = "page", outcome: Outcome | None = None, delay: float = 1.0
) -> FetchResult:
    return FetchResult(
        fetch_id=int(start * 1_000) + 1,
        url=url,
        key=Canonicaliser().key(url),
        outcome=outcome or Fetched(200),
        kind=kind,
        finished_at=AT + start + 0.1,
        latency_ms=12,
        host=url.split("/")[2],
        asked_at=AT + start,
        delay=delay,
        received=512,
        protocol="HTTP/1.1",
        phases=Phases(3, 8, 1),
    )


def history(workspace: Path, *results: FetchResult) -> None:
    index = open_index(Settings(), workspace, create=True)
    records = [Record("fetch.results", 0, 0, b"", codec.encode(result), AT) for result in results]
    index.save([change for record in records for change in handle(record).changes])
    index.close()


GENTLE = (
    asked("http://a.test/robots.txt", 0, "robots", Robots(404)),
    asked("http://a.test/1", 1),
    asked("http://a.test/2", 2.25),
    asked("http://b.test/", 0),
)


def test_a_gentle_crawl_is_proved(tmp_path: Path) -> None:
    history(tmp_path / "workspace", *GENTLE)
    done = headrace("politeness", "prove", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "2 hosts, 4 requests, 0 gaps shorter than owed"
    assert lines[1].split() == ["3", "1.000", "s", "1.000", "s", "0", "a.test"]
    assert lines[2].split() == ["1", "–", "–", "0", "b.test"]


def test_a_short_gap_fails_and_names_the_two_requests(tmp_path: Path) -> None:
    history(tmp_path / "workspace", *GENTLE, asked("http://a.test/hasty", 2.5))
    done = headrace("politeness", "prove", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "2 hosts, 5 requests, 1 gap shorter than owed"
    where = done.stdout.splitlines()[2:4]
    assert ["http://a.test/2" in where[0], "http://a.test/hasty" in where[1]] == [True, True]
    assert "Traceback" not in done.stderr


def test_slack_host_and_since_choose_what_counts(tmp_path: Path) -> None:
    history(tmp_path / "workspace", *GENTLE, asked("http://a.test/hasty", 2.5))
    for arguments in (["--slack", "0.8"], ["--host", "B.test"], ["--since", str(AT + 2.4)]):
        assert headrace("politeness", "prove", *arguments, cwd=tmp_path).returncode == 0, arguments
    for arguments in (["--slack", "0.7"], ["--host", "a.test"], ["--since", "2023-11-14T22:13:21"]):
        assert headrace("politeness", "prove", *arguments, cwd=tmp_path).returncode == 1, arguments


def test_json_has_every_host_worst_first(tmp_path: Path) -> None:
    many = [asked(f"http://h{n}.test/{start}", start * 2.0) for n in range(30) for start in (0, 1)]
    history(tmp_path / "workspace", *many, *GENTLE, asked("http://a.test/hasty", 2.5))
    done = headrace("politeness", "prove", "--json", cwd=tmp_path)
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert (told["host_count"], told["request_count"], told["short_gaps"]) == (32, 65, 1)
    assert len(told["hosts"]) == 32
    worst = told["hosts"][0]
    assert (worst["host"], worst["short_gaps"], worst["gap"], worst["owed"]) == ("a.test", 1, 0.25, 1.0)
    assert [asked["url"] for asked in worst["between"]] == ["http://a.test/2", "http://a.test/hasty"]
    assert told["hosts"][-1] == {
        "host": "b.test",
        "requests": 1,
        "short_gaps": 0,
        "smallest_gap": None,
        "gap": None,
        "owed": None,
        "between": [],
    }


def test_people_see_the_twenty_hosts_with_least_to_spare(tmp_path: Path) -> None:
    many = [asked(f"http://h{n:02}.test/{start}", start * (1.0 + n)) for n in range(30) for start in (0, 1)]
    history(tmp_path / "workspace", *many)
    shown = headrace("politeness", "prove", cwd=tmp_path).stdout.splitlines()
    assert [line.split()[-1] for line in shown[1:21]] == [f"h{n:02}.test" for n in range(20)]
    assert "10 hosts" in shown[21]
    assert len(headrace("politeness", "prove", "--all", cwd=tmp_path).stdout.splitlines()) == 32


def test_without_a_history_nothing_is_proved(tmp_path: Path) -> None:
    history(tmp_path / "workspace")
    done = headrace("politeness", "prove", cwd=tmp_path)
    assert (done.returncode, done.stdout.count("\n")) == (1, 1)
    assert "nothing is proved" in done.stdout
    done = headrace("politeness", "prove", "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert json.loads(done.stdout)["request_count"] == 0


def test_a_host_that_was_never_asked_is_named(tmp_path: Path) -> None:
    history(tmp_path / "workspace", *GENTLE)
    done = headrace("politeness", "prove", "--host", "never.test", cwd=tmp_path)
    assert done.returncode == 1
    assert "never.test" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "word"),
    [(["--since", "some day"], "some day"), (["--slack", "-1"], "--slack"), (["--slack", "nan"], "--slack")],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path: Path, arguments: list[str], word: str) -> None:
    history(tmp_path / "workspace", *GENTLE)
    done = headrace("politeness", "prove", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert word in done.stderr


def test_a_workspace_without_pages_says_how_to_make_some(tmp_path: Path) -> None:
    done = headrace("politeness", "prove", cwd=tmp_path)
    assert done.returncode == 2
    assert "headrace crawl" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_help_has_an_example(tmp_path: Path) -> None:
    done = headrace("politeness", "prove", "--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "Example:" in done.stdout


def test_show_prints_the_last_ten_requests_of_a_url(tmp_path: Path) -> None:
    url = "http://a.test/flaky"
    failures = [asked(url, start, outcome=Failed("http", 503)) for start in range(11)]
    history(tmp_path / "workspace", *failures, asked(url, 11, outcome=Failed("timeout")))
    done = headrace("show", url, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    requests = lines[next(n for n, line in enumerate(lines) if line.startswith("requests")) + 1 :]
    assert len(requests) == 10
    assert requests[0].split()[:3] == ["2023-11-14T22:13:22.000Z", "503", "failed:http"]
    assert "12 ms (connect 3, first byte 8, body 1)" in requests[0]
    assert requests[-1].split()[:3] == ["2023-11-14T22:13:31.000Z", "–", "failed:timeout"]


def test_show_of_a_robots_txt_has_its_requests_although_it_is_no_page(tmp_path: Path) -> None:
    hopped = msgspec.structs.replace(GENTLE[0], hops=(("www.a.test", AT + 0.5),))
    history(tmp_path / "workspace", hopped)
    done = headrace("show", hopped.url, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["url", hopped.url]
    assert lines[2].split()[1:3] == ["404", "robots"]
    assert lines[3].endswith("hop to www.a.test")
    assert headrace("show", hopped.url, "--html", cwd=tmp_path).returncode == 2
