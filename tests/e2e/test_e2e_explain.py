"""Why a URL was, or was not, or is not yet fetched, asked by the command a user types; and the counters recounted."""

import asyncio
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import WebSpec
from headrace_frontier.counters import COUNTERS
from headrace_frontier.counters import load as load_counters
from headrace_runtime.clock import SystemClock
from headrace_runtime.streams.embedded.engine import EmbeddedStreams
from headrace_runtime.streams.seams import Lane, Unit
from headrace_schemas.messages import State
from tests.contract.serving import serving
from tests.e2e.crawls import Crawler, kill, until
from tests.e2e.scripted import ScriptedWeb, failing, moved, page, robots

Facts = dict[str, Any]
GOOD, LEAVE_ME, FAILING, SLOW = range(4)
"""Hosts of the web of these tests."""
OPTIONS = (
    *("--delay", "0", "--max-depth", "2", "--set", "retry.base=0.05", "--set", "scope.deny_hosts=127.40.0.99"),
    *("--set", "breaker.failures=2", "--set", "breaker.cooldown=3000"),
    *("--set", "fetch.read_timeout=300", "--set", "fetch.total_timeout=300"),
)


def scripted() -> ScriptedWeb:
    return ScriptedWeb(*(f"127.40.0.{number}" for number in range(1, 5)))


def told(web: ScriptedWeb) -> None:
    """All linked from one page: a host that was never asked for a page is asked for one at a time."""
    web.set("/robots.txt", robots("User-agent: *", "Disallow: /private/"))
    there = [web.url(path, LEAVE_ME) for path in ("/busy", "/1", "/2", "/3")]
    there += [web.url(path, FAILING) for path in ("/1", "/2", "/3")]
    there += [web.url("/slow", SLOW), web.url("/slow2", SLOW), "http://127.40.0.99/"]
    web.set("/", page("/moved", "/gone", "/broken", "/private/x", "/deep1", *there))
    web.set("/moved", moved("/moved2"))
    web.set("/moved2", moved("/final", 302))
    web.set("/final", page())
    web.set("/broken", failing(500))
    web.set("/deep1", page("/deep2"))
    web.set("/deep2", page("/deep3"))
    web.set("/busy", failing(503, ("Retry-After", "3000")), LEAVE_ME)
    for path in ("/1", "/2", "/3"):
        web.set(path, failing(500), FAILING)


class Asked(Crawler):
    """Questions to a crawl, and what a person reads."""

    def said(self, *args: str) -> str:
        done = self.run(*args)
        assert done.returncode == 0, (args, done.stdout, done.stderr)
        assert done.stderr == ""
        return done.stdout

    def explain(self, url: str) -> str:
        return self.said("explain", url)

    def facts(self, url: str) -> Facts:
        found: Facts = json.loads(self.said("explain", url, "--json"))
        return found

    def await_figures(self, **figures: int) -> None:
        """Of `headrace status`, which is refused as long as there is no workspace; and the index is up to date."""
        end = time.monotonic() + 60
        while not self.stands_at(figures):
            assert time.monotonic() < end, (figures, self.run("status").stdout, self.tail())

    def stands_at(self, figures: dict[str, int]) -> bool:
        done = self.run("status", "--json")
        status = json.loads(done.stdout) if done.returncode == 0 else {"lag": []}
        return figures.items() <= status.items() and not any(name.startswith("storer") for name in status["lag"])

    def waits(self, url: str) -> list[str]:
        return [wait["for"] for wait in self.facts(url)["waits"]]


def refused(done: "subprocess.CompletedProcess[str]", code: int, *words: str) -> None:
    assert (done.returncode, done.stdout) == (code, ""), (done.stdout, done.stderr)
    [line] = done.stderr.splitlines()
    for word in words:
        assert word in line, line


def line(text: str, title: str) -> str:
    """What stands behind a title."""
    found = [row for row in text.splitlines() if row.split()[:1] == [title]]
    assert len(found) == 1, text
    return found[0].partition(title)[2].strip()


# ---- a crawl that waits, running, paused and killed ----------------------------------------------


def test_what_a_crawl_does_and_waits_for_is_told_while_it_runs_is_paused_and_was_killed(tmp_path: Path) -> None:
    with scripted() as web:
        told(web)
        release = web.hold("/slow", SLOW)
        asked = Asked(tmp_path)
        process = asked.begin([web.url("/")], *OPTIONS)
        try:
            asked.await_figures(fetched=4, redirected=2, failed=2, refused=2, queued=8, in_flight=1)
            while_it_runs(asked, web)
            while_paused(asked, web)
            release()
            asked.await_figures(failed=3, in_flight=0)
        finally:
            kill(process)
        after_a_kill(asked, web)


def while_it_runs(asked: Asked, web: ScriptedWeb) -> None:
    first = web.url("/")
    seed = asked.explain(first)
    assert seed.startswith(f"{first}\n")
    assert (line(seed, "state"), line(seed, "found")) == ("fetched", "a seed")
    assert "200, fetched" in line(seed, "answers")

    final = asked.explain(web.url("/final"))
    assert line(final, "state") == "fetched"
    assert line(final, "found") == f"at depth 1, on {first}"
    assert f"through redirects: {web.url('/moved')} → {web.url('/moved2')} → {web.url('/final')}" in final
    assert line(asked.explain(web.url("/moved")), "state") == f"redirected to {web.url('/moved2')}"

    broken = asked.explain(web.url("/broken"))
    assert line(broken, "state").startswith("failed (http: the server answered 500); `headrace crawl --retry-failed`")
    assert broken.count(": 500, failed,") == 3
    assert line(broken, "attempts") == "3 failed"

    private = asked.explain(web.url("/private/x"))
    assert line(private, "state") == "refused (robots_disallow: robots.txt forbids it), never requested"
    assert line(private, "robots").startswith("forbidden: Disallow: /private/ (line 2) (answer 200 at ")
    deep = asked.explain(web.url("/deep3"))
    assert line(deep, "state").startswith("refused (depth: ")
    assert line(deep, "scope") == "out (depth): limits.max_depth is 2, this is 3"

    out = asked.explain("http://127.40.0.99/")
    assert line(out, "state") == "never found"
    assert line(out, "scope") == "out (subdomain_denied): scope.deny_hosts has 127.40.0.99"
    assert line(out, "next") == "links to it are turned away"
    never = asked.explain(web.url("/never"))
    assert (line(never, "state"), line(never, "next")) == ("never found", "it will be queued if a page links to it")
    forbidden = asked.explain(web.url("/private/never"))
    assert line(forbidden, "next") == "it will be refused if a page links to it: robots.txt forbids it"
    assert line(asked.explain(web.url("/robots.txt")), "state") == "no page: asked for as the robots.txt of its host"

    last = asked.explain(web.url("/3", LEAVE_ME))
    assert line(last, "queue") == "priority high, behind 2 URLs of its host"
    assert line(last, "next").startswith("127.40.0.2 asked to be left alone (Retry-After) until ")
    busy = asked.facts(web.url("/busy", LEAVE_ME))
    assert [(fetch["status"], fetch["attempt"]) for fetch in busy["answers"]["fetches"]] == [(503, 1)]
    assert {wait["for"] for wait in busy["waits"]} == {"retry_after", "retry"}

    failing = asked.explain(web.url("/3", FAILING))
    assert line(failing, "host").endswith("breaker open")
    assert line(failing, "next").startswith("127.40.0.3 failed again and again and is left alone until ")

    slow = asked.explain(web.url("/slow", SLOW))
    assert (line(slow, "state"), line(slow, "next")) == ("in flight", "it is with the fetcher")
    assert "attempt 1" in slow.splitlines()[-1]
    [wait] = asked.facts(web.url("/slow2", SLOW))["waits"]
    assert wait["for"] == "turn"

    assert asked.status()["why"] == "", "a request is under way"
    refused(asked.run("frontier", "check"), 1, str(asked.workspace), "stop --workspace")


def while_paused(asked: Asked, web: ScriptedWeb) -> None:
    asked.said("pause")
    status = asked.status()
    assert (status["mode"], status["why"]) == ("paused", "the crawl is paused: `headrace resume` goes on")
    assert asked.said("status").startswith("paused, not complete: ")
    assert asked.waits(web.url("/3", LEAVE_ME)) == ["paused", "retry_after"]
    assert asked.waits(web.url("/slow", SLOW)) == ["paused", "answer"]
    assert asked.waits(web.url("/final")) == []


def after_a_kill(asked: Asked, web: ScriptedWeb) -> None:
    """Nobody runs: the commands look at what was committed."""
    status = asked.said("status")
    assert status.startswith("paused, not running, not complete: ")
    assert "why: no crawl is running here: `headrace crawl` goes on; the crawl is paused: `headrace resume`" in status
    asked.said("resume")
    assert asked.said("status").startswith("not running, not complete: ")
    last = asked.explain(web.url("/3", LEAVE_ME))
    assert line(last, "next") == "no crawl is running here: `headrace crawl` goes on"
    assert "127.40.0.2 asked to be left alone (Retry-After) until " in last
    assert "200, fetched" in line(asked.explain(web.url("/")), "answers")
    assert asked.said("frontier", "check") == "19 URLs, 4 hosts: all counters agree\n"


# ---- a crawl that ended --------------------------------------------------------------------------


def test_a_spent_budget_is_the_reason_and_a_counter_that_is_wrong_is_told_with_both_numbers(tmp_path: Path) -> None:
    with scripted() as web:
        told(web)
        web.set("/", page("/1", "/2", "/3", "/4"))
        asked = Asked(tmp_path)
        for number in range(1, 5):
            web.set(f"/{number}", page())
        assert asked.crawl([web.url("/")], *OPTIONS, "--max-pages", "3") == 0, asked.tail()
    last = asked.explain(web.url("/4"))
    assert line(last, "next") == "limits.max_pages (3) is spent: raise it to go on"
    assert last.endswith("no crawl is running here: `headrace crawl` goes on\n")
    status = asked.said("status")
    assert status.startswith("complete\n")
    assert "why:" not in status
    assert "2 queued behind limits.max_pages" in status
    assert asked.said("frontier", "check") == "5 URLs, 1 host: all counters agree\n"

    asyncio.run(miscounted(asked.workspace, State.FETCHED, 5))
    done = asked.run("frontier", "check")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == "fetched: 8 by the books, 3 by the URLs\n5 URLs, 1 host: 1 difference\n"
    done = asked.run("frontier", "check", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout) == {
        "agree": False,
        "urls": 5,
        "hosts": 1,
        "count": 1,
        "differences": ["fetched: 8 by the books, 3 by the URLs"],
    }


async def miscounted(workspace: Path, state: State, by: int) -> None:
    """As a bug would: in a unit of work of the frontier's own lane."""
    streams = await EmbeddedStreams.open(
        workspace / "state" / "log", partitions=1, sync="group", keep=0, clock=SystemClock()
    )
    done = asyncio.Event()

    async def serve(lane: Lane) -> None:
        unit = Unit(lane.state)
        counters = load_counters(unit.get([COUNTERS])[0])
        counters.states[state] += by
        unit.put(COUNTERS, counters.encoded())
        await lane.commit(unit)
        done.set()
        while lane.stopping is None:
            await lane.poll(1, 0.05)

    try:
        async with serving(streams, "frontier", ["links.discovered"], serve, stateful=True):
            await asyncio.wait_for(done.wait(), 30)
    finally:
        await streams.close()


def test_a_crawl_killed_in_the_middle_has_counters_that_agree_with_a_recount(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=20, pages=30)) as web:
        asked = Asked(tmp_path)
        for _ in range(3):
            before = len(web.requests())
            process = asked.begin(web.seeds(), "--delay", "0.02")
            until(lambda n=before: len(web.requests()) > n + 60, 60, asked.tail())  # type: ignore[misc]
            kill(process)
            found = json.loads(asked.said("frontier", "check", "--json"))
            assert found["differences"] == []
            assert found["urls"] == asked.status()["discovered"] > 60
        assert not asked.status()["complete"]
        assert asked.crawl(web.seeds(), "--delay", "0") == 0, asked.tail()
        assert asked.said("frontier", "check") == "600 URLs, 20 hosts: all counters agree\n"


# ---- questions that have no answer ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("garbage", ["'garbage' is no http(s) URL", "did you mean https://garbage/"]),
        ("example.org/a", ["did you mean https://example.org/a"]),
        ("mailto:me@example.org", ["no http(s) URL", "scheme"]),
        ("http://[::1/", ["no http(s) URL"]),
        ("", ["no http(s) URL"]),
        ("http://example.org/", ["no crawl in", "crawl URL"]),
    ],
)
def test_what_cannot_be_explained_is_told_in_one_line(tmp_path: Path, url: str, words: list[str]) -> None:
    refused(Crawler(tmp_path).run("explain", url), 2, *words)
    assert list(tmp_path.iterdir()) == []


def test_a_check_without_a_crawl_to_look_at_is_told_in_one_line(tmp_path: Path) -> None:
    refused(Crawler(tmp_path).run("frontier", "check"), 2, "no crawl in")
    there = Crawler(tmp_path, HEADRACE_STREAMS__URL="kafka://127.0.0.1:1")
    refused(there.run("frontier", "check"), 2, "embedded")
    assert list(tmp_path.iterdir()) == []
