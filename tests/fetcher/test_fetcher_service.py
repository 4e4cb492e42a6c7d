"""The whole service: tasks in on a real embedded log, requests to a real server, pages and results out."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from headrace_fetcher import lookups
from headrace_runtime.streams.seams import Lane, Send
from headrace_schemas import codec
from headrace_schemas.errors import TooNew
from headrace_schemas.messages import Deferred, Failed, Fetched, FetchedPage, FetchTask, Redirected, Refused, Robots
from headrace_schemas.settings import PolitenessSettings
from tests.fetcher.hostile import Hostile, Reply, Seen, answer, hostile_server
from tests.fetcher.rig import task
from tests.fetcher.served import loopback, served


@pytest.fixture
async def server() -> AsyncIterator[Hostile]:
    async with hostile_server() as hostile:
        yield hostile


def tasks(server: Hostile, hosts: int, each: int, delay: float, path: str = "/") -> list[FetchTask]:
    found = []
    for number in range(hosts * each):
        host = f"127.0.3.{1 + number % hosts}"
        found.append(task(server.url(path, host), fetch_id=number, delay=delay))
    return found


async def test_each_task_is_answered_once_with_what_became_of_it(server: Hostile, tmp_path: Path) -> None:
    paths = ["/", "/missing", "/moved", "/garbage", "/png", "/broken"]
    async with served(tmp_path) as fetcher:
        work = [task(server.url(path), fetch_id=n, depth=4, hop=1, run=3) for n, path in enumerate(paths)]
        work.append(task(server.url("/robots.txt"), fetch_id=6, kind="robots"))
        work.append(task("http://10.0.0.1/", fetch_id=7))
        await fetcher.send(*work)
        await fetcher.answered(8)
        outcomes = fetcher.outcomes
        kinds = [type(outcomes[n]) for n in range(8)]
        assert kinds == [Fetched, Failed, Redirected, Failed, Failed, Failed, Robots, Refused]
        assert [page.fetch_id for page in fetcher.pages] == [0]
        first = next(result for result in fetcher.results if result.fetch_id == 0)
        assert (first.depth, first.hop, first.run, first.url) == (4, 1, 3, server.url("/"))
        assert first.finished_at > 1e9
        assert (first.host, first.protocol, first.delay) == ("127.0.0.1", "HTTP/1.1", 0.0)
        assert first.received > 0
        assert first.finished_at - 30 < first.asked_at <= first.finished_at
        asked = {result.fetch_id: result.asked_at > 0 for result in fetcher.results}
        assert asked == {number: number != 7 for number in range(8)}
        page, result = (r for r in fetcher.records if r.key == (0).to_bytes(8, "big"))
        assert {page.topic, result.topic} == {"pages.fetched", "fetch.results"}
        assert codec.revision_of(result.value) == fetcher.revision
        assert await fetcher.settled()


async def test_requests_to_a_host_are_spread_by_its_delay_as_the_server_sees_it(
    server: Hostile, tmp_path: Path
) -> None:
    async with served(tmp_path) as fetcher:
        await fetcher.send(*tasks(server, hosts=10, each=5, delay=0.2))
        await fetcher.answered(50)
    per: dict[str, list[Seen]] = defaultdict(list)
    for seen in server.log:
        per[seen.host].append(seen)
    assert len(per) == 10
    for seen_here in per.values():
        assert len(seen_here) == 5
        # Four gaps are owed. Half of that: a stalled machine stamps late, and the exact rule is tested in virtual time.
        assert seen_here[-1].at - seen_here[0].at > 0.4
    waited = [result.waited for result in fetcher.results]
    assert max(waited) > 0.7


async def test_requests_to_a_host_never_overlap(server: Hostile, tmp_path: Path) -> None:
    async def slow(writer: asyncio.StreamWriter, seen: Seen) -> bool | None:
        await asyncio.sleep(0.02)
        return await answer()(writer, seen)

    server.routes["/"] = slow
    async with served(tmp_path) as fetcher:
        await fetcher.send(*tasks(server, hosts=1, each=10, delay=0.0))
        await fetcher.answered(10)
    assert server.most_open == 1


async def test_the_process_keeps_its_limit_of_requests_under_way(server: Hostile, tmp_path: Path) -> None:
    async def slow(writer: asyncio.StreamWriter, seen: Seen) -> bool | None:
        await asyncio.sleep(0.02)
        return await answer()(writer, seen)

    server.routes["/"] = slow
    async with served(tmp_path, settings=loopback(limits={"concurrency": 3})) as fetcher:
        await fetcher.send(*tasks(server, hosts=20, each=2, delay=0.0))
        await fetcher.answered(40)
        assert server.most_open == 3


async def test_a_turn_too_far_away_is_put_off_at_once(server: Hostile, tmp_path: Path) -> None:
    async with served(tmp_path) as fetcher:
        await fetcher.send(task(server.url("/"), delay=100.0))
        await fetcher.answered(1)
        outcome = fetcher.outcomes[7]
        assert isinstance(outcome, Deferred)
        assert outcome.reason == "wait"
        assert 90 < outcome.not_before - time.time() <= 100.1
        assert await fetcher.settled()
    assert not server.log


async def test_a_task_past_its_robots_verdict_is_put_off(server: Hostile, tmp_path: Path) -> None:
    async with served(tmp_path) as fetcher:
        soon = time.time() + 0.2
        await fetcher.send(
            task(server.url("/"), fetch_id=1, valid_until=1.0),
            task(server.url("/"), fetch_id=2, delay=0.5, valid_until=soon),
        )
        await fetcher.answered(2)
        assert all(isinstance(outcome, Deferred) for outcome in fetcher.outcomes.values())
        assert {outcome.reason for outcome in fetcher.outcomes.values()} == {"stale"}
    assert not server.log


async def test_a_host_slower_than_its_queue_gives_tasks_back(server: Hostile, tmp_path: Path) -> None:
    settings = loopback(total_timeout=0.4, read_timeout=0.4)
    async with served(tmp_path, settings=settings) as fetcher:
        await fetcher.send(*(task(server.url("/drip"), fetch_id=n) for n in range(4)))
        await fetcher.answered(4)
        reasons = sorted(getattr(outcome, "reason", "") for outcome in fetcher.outcomes.values())
        assert "timeout" in reasons
        assert "wait" in reasons


# ---- tasks no one can read ----


async def test_an_undecodable_task_is_buried_and_settles_its_url(server: Hostile, tmp_path: Path) -> None:
    async with served(tmp_path) as fetcher:
        smuggled = task(server.url("/ HTTP/1.1\r\nX: y"))
        await fetcher.streams.publish(
            [
                Send("urls.to_fetch", 0, b"garbage", (5).to_bytes(8, "big")),
                Send("urls.to_fetch", 0, codec.encode(smuggled), (9).to_bytes(8, "big")),
                Send(
                    "urls.to_fetch", 0, codec.encode(task(server.url("/"), delay=float("nan"))), (8).to_bytes(8, "big")
                ),
                Send("urls.to_fetch", 0, b"", b"?"),
            ]
        )
        await fetcher.send(task(server.url("/"), fetch_id=1))
        await fetcher.answered(4)
        assert {fetch_id: getattr(outcome, "reason", "") for fetch_id, outcome in fetcher.outcomes.items()} == {
            5: "poison",
            9: "poison",
            8: "poison",
            1: "",
        }
        await fetcher.until(lambda: fetcher.service.busy() == 0)
        assert await fetcher.settled()
        assert await dead_letters(fetcher) == 4


async def dead_letters(fetcher: Any) -> int:
    return sum(edge.end for edge in await fetcher.streams.edges([("dead.letters", "test")]))


async def test_a_task_of_a_newer_release_stops_the_process(tmp_path: Path) -> None:
    async def crawl() -> None:
        async with served(tmp_path) as fetcher:
            await fetcher.streams.publish([Send("urls.to_fetch", 0, b"H\xff\0\0\0\0\x90", bytes(8))])
            await fetcher.until(lambda: fetcher.lanes)
            await asyncio.sleep(0.2)

    with pytest.raises(TooNew):
        await crawl()


async def test_a_bug_of_ours_fails_its_task_and_nothing_else(
    server: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> bool:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("headrace_fetcher.media.looks_like_html", broken)
    async with served(tmp_path) as fetcher:
        await fetcher.send(task(server.url("/untyped"), fetch_id=1), task(server.url("/"), fetch_id=2))
        await fetcher.answered(2)
        assert isinstance(fetcher.outcomes[2], Fetched)
        crashed = fetcher.outcomes[1]
        assert isinstance(crashed, Failed)
        assert (crashed.reason, crashed.detail) == ("crashed", "ZeroDivisionError: a bug")
    assert any(record.levelname == "ERROR" and record.exc_info for record in caplog.records)


# ---- holding back ----


async def test_a_pause_lets_no_request_start_and_a_resume_goes_on(server: Hostile, tmp_path: Path) -> None:
    async with served(tmp_path) as fetcher:
        await fetcher.send(*tasks(server, hosts=2, each=30, delay=0.05))
        await fetcher.until(lambda: len(server.log) > 4)
        await fetcher.mode("paused")
        await fetcher.until(lambda: fetcher.service.busy() == 0)
        asked = len(server.log)
        await asyncio.sleep(0.3)
        assert len(server.log) == asked
        assert fetcher.service.status()["waiting"] > 0
        await fetcher.mode("running")
        await fetcher.answered(60)
        assert all(isinstance(outcome, Fetched) for outcome in fetcher.outcomes.values())


async def test_nothing_starts_before_the_crawl_does(server: Hostile, tmp_path: Path) -> None:
    async with served(tmp_path, mode="stopping") as fetcher:
        await fetcher.send(*tasks(server, hosts=3, each=1, delay=0.0))
        await fetcher.until(lambda: fetcher.service.status()["waiting"] == 3)
        await asyncio.sleep(0.1)
        assert not server.log


class Doubtful:
    """A lane that may have been lost without this process knowing."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self.ours = True

    def owned(self) -> bool:
        return self.ours and self._lane.owned()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lane, name)


async def test_a_lane_that_may_be_lost_starts_nothing_until_it_is_certain(server: Hostile, tmp_path: Path) -> None:
    doubtful: list[Doubtful] = []

    def wrap(lane: Lane) -> Lane:
        doubtful.append(Doubtful(lane))
        doubtful[-1].ours = False
        return doubtful[-1]

    async with served(tmp_path, wrap=wrap) as fetcher:
        await fetcher.send(*tasks(server, hosts=5, each=2, delay=0.0))
        await fetcher.until(lambda: fetcher.service.status()["waiting"] == 10)
        await asyncio.sleep(0.25)
        assert not server.log
        doubtful[0].ours = True
        await fetcher.answered(10)


async def test_a_robots_redirect_waits_while_paused(server: Hostile, tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def moved(writer: asyncio.StreamWriter, seen: Seen) -> bool | None:
        await gate.wait()
        return await answer("301 Moved", b"", ("Location: /robots.txt",))(writer, seen)

    server.routes["/old"] = moved
    async with served(tmp_path) as fetcher:
        await fetcher.send(task(server.url("/old"), kind="robots", delay=0.05))
        await fetcher.until(lambda: server.log)
        await fetcher.mode("paused")
        gate.set()
        await asyncio.sleep(0.3)
        assert [seen.target for seen in server.log] == ["/old"]
        await fetcher.mode("running")
        await fetcher.answered(1)
        assert isinstance(fetcher.outcomes[7], Robots)


async def test_hops_within_a_domain_that_shares_a_clock_wait_for_it_and_are_told_as_of_it(
    server: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def moved(path: str, host: str) -> Reply:
        return answer("302 Found", b"", (f"Location: {server.url(path, host)}",))

    names = {"a.site.test": "127.0.3.1", "b.site.test": "127.0.3.2", "c.other.test": "127.0.3.3"}
    monkeypatch.setattr(lookups, "getaddrinfo", lambda host: (names[host],))
    server.routes["/first"] = moved("/second", "b.site.test")
    server.routes["/second"] = moved("/robots.txt", "c.other.test")
    by_domain = replace(loopback(), politeness=PolitenessSettings(key="domain"))
    async with served(tmp_path, settings=by_domain) as fetcher:
        url = server.url("/first", "a.site.test")
        await fetcher.send(task(url, host="site.test", kind="robots", delay=0.4))
        await fetcher.answered(1)
    assert [seen.host for seen in server.log] == ["127.0.3.1", "127.0.3.2", "127.0.3.3"]
    assert server.log[1].at - server.log[0].at > 0.2  # half of what is owed: a stalled machine stamps late
    (result,) = fetcher.results
    assert [host for host, _ in result.hops] == ["site.test", "other.test"]
    assert result.hops[0][1] < result.asked_at < result.hops[1][1]


# ---- ending ----


async def test_a_stop_waits_for_what_is_under_way_and_leaves_the_rest_unread(server: Hostile, tmp_path: Path) -> None:
    async def slow(writer: asyncio.StreamWriter, seen: Seen) -> bool | None:
        await asyncio.sleep(0.2)
        return await answer()(writer, seen)

    server.routes["/"] = slow
    async with served(tmp_path) as fetcher:
        await fetcher.send(*tasks(server, hosts=1, each=20, delay=0.0))
        await fetcher.until(lambda: server.log)
    asked = len(server.log)
    assert asked <= 3
    async with served(tmp_path) as fetcher:
        await fetcher.answered(20 - asked)
        await asyncio.sleep(0.05)
        again = {page.fetch_id for page in fetcher.pages if isinstance(page, FetchedPage)}
    assert again == set(range(asked, 20)) or again == set(range(20))


async def test_a_stop_cuts_off_what_does_not_end_in_time(server: Hostile, tmp_path: Path) -> None:
    async with served(tmp_path, drain=0.2) as fetcher:
        await fetcher.send(task(server.url("/silent")))
        await fetcher.until(lambda: server.log)
    async with served(tmp_path, drain=0.2) as fetcher:
        assert not await fetcher.settled()
        await fetcher.until(lambda: len(server.log) == 2)


async def test_the_figures_tell_what_happened(server: Hostile, tmp_path: Path) -> None:
    async with served(tmp_path) as fetcher:
        for number, path in enumerate(["/", "/", "/missing", "/garbage"]):
            await fetcher.send(task(server.url(path), fetch_id=number))
        await fetcher.send(task(server.url("/missing"), fetch_id=4, kind="robots"))
        await fetcher.answered(5)
        value = fetcher.registry.get_sample_value
        assert value("crawler_pages_fetched_total") == 2
        assert value("crawler_http_status_total", {"code": "200", "kind": "page"}) == 2
        assert value("crawler_http_status_total", {"code": "404", "kind": "page"}) == 1
        assert value("crawler_http_status_total", {"code": "404", "kind": "robots"}) == 1
        assert value("crawler_fetch_failures_total", {"reason": "protocol"}) == 1
        assert value("crawler_fetch_success_rate") == 0.6
        assert value("crawler_fetch_latency_seconds_count") == 5
        assert (value("crawler_pages_per_second") or 0) > 0
        assert (value("crawler_fetch_bytes_total") or 0) > 4000
        assert value("crawler_active_workers") == 0
        assert value("crawler_hosts_scheduled") == 1
        assert fetcher.service.busy() == 0
        assert fetcher.service.status()["running"] is True
