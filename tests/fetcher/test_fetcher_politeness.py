"""Politeness in the server's own log, with the whole service between the tasks and the sockets.

Gaps are compared with nine tenths of what is owed: a busy machine stamps arrivals late. The exact rules are tested in
virtual time, in `test_fetcher_schedule*.py`."""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from headrace_runtime.streams.seams import Lane
from headrace_schemas.messages import Deferred, Failed, Fetched, Robots
from headrace_schemas.settings import RetrySettings
from tests.fetcher.hostile import Hostile, Reply, Seen, answer, hostile_server
from tests.fetcher.rig import task
from tests.fetcher.served import loopback, served

SLACK = 0.9


@pytest.fixture
async def server() -> AsyncIterator[Hostile]:
    async with hostile_server() as hostile:
        yield hostile


def gaps(log: Iterable[Seen]) -> list[float]:
    per: dict[str, list[float]] = defaultdict(list)
    for seen in log:
        per[seen.host].append(seen.at)
    return [after - before for times in per.values() for before, after in pairwise(sorted(times))]


def slow(seconds: float) -> Reply:
    async def reply(writer: asyncio.StreamWriter, seen: Seen) -> bool | None:
        await asyncio.sleep(seconds)
        return await answer()(writer, seen)

    return reply


async def test_the_ports_of_one_host_share_its_clock(server: Hostile, tmp_path: Path) -> None:
    async with hostile_server() as other, served(tmp_path) as fetcher:
        for number in range(3):
            for port in (server, other):
                kind: Any = "page" if number else "robots"
                path = "/" if number else "/robots.txt"
                await fetcher.send(task(port.url(path), fetch_id=port.port * 10 + number, kind=kind, delay=0.2))
        await fetcher.answered(6)
        log = server.log + other.log
        assert len(log) == 6
        assert min(gaps(log)) >= 0.2 * SLACK


async def test_a_slow_host_is_not_asked_again_before_it_has_answered(server: Hostile, tmp_path: Path) -> None:
    server.routes["/"] = slow(0.3)
    async with served(tmp_path) as fetcher:
        await fetcher.send(*(task(server.url("/"), fetch_id=n, delay=0.05) for n in range(4)))
        await fetcher.answered(4)
    assert server.most_open == 1
    assert min(gaps(server.log)) >= 0.3


async def test_a_named_host_is_asked_before_it_has_answered_but_never_sooner_than_the_delay(
    server: Hostile, tmp_path: Path
) -> None:
    server.routes["/"] = slow(0.5)
    async with served(tmp_path) as fetcher:
        await fetcher.send(*(task(server.url("/"), fetch_id=n, delay=0.2, connections=2) for n in range(6)))
        await fetcher.answered(6)
        assert all(isinstance(outcome, Fetched) for outcome in fetcher.outcomes.values())
    assert server.most_open == 2
    assert min(gaps(server.log)) >= 0.2 * SLACK


async def test_a_robots_redirect_on_its_own_host_waits_the_delay_among_the_pages(
    server: Hostile, tmp_path: Path
) -> None:
    server.routes["/old"] = answer("301 Moved", b"", ("Location: /robots.txt",))
    async with hostile_server() as other, served(tmp_path) as fetcher:  # whose robots.txt is known already
        await fetcher.send(task(server.url("/old"), fetch_id=1, kind="robots", delay=0.2))
        await fetcher.send(*(task(other.url("/"), fetch_id=n, delay=0.2) for n in (2, 3, 4)))
        await fetcher.answered(4)
        assert isinstance(fetcher.outcomes[1], Robots)
        log = server.log + other.log
        assert len(log) == 5
        assert min(gaps(log)) >= 0.2 * SLACK


async def test_a_robots_redirect_to_another_host_waits_for_that_hosts_turn(server: Hostile, tmp_path: Path) -> None:
    there = server.url("/robots.txt", "127.0.8.2")
    server.routes["/old"] = answer("301 Moved", b"", (f"Location: {there}",))
    async with served(tmp_path) as fetcher:
        pages = [task(server.url("/", "127.0.8.2"), fetch_id=n, delay=0.3) for n in (1, 2, 3)]
        moved = [task(server.url("/old", f"127.0.8.{n}"), fetch_id=n, kind="robots", delay=0.3) for n in (10, 11, 12)]
        await fetcher.send(*pages, *moved)
        await fetcher.answered(6)
    asked = [seen for seen in server.log if seen.host == "127.0.8.2"]
    assert len(asked) == 6
    assert min(gaps(asked)) >= 0.3 * SLACK


@pytest.mark.parametrize("status", ["429 Too Many Requests", "503 Service Unavailable"])
async def test_a_rest_asked_for_is_kept_by_the_tasks_that_were_there_and_those_that_come(
    server: Hostile, tmp_path: Path, status: str
) -> None:
    server.routes["/busy"] = answer(status, b"", ("Retry-After: 2",))
    async with served(tmp_path) as fetcher:
        paths = ("/busy", "/", "/", "/robots.txt")
        kinds: list[Any] = ["page", "page", "page", "robots"]
        here = [task(server.url(p), fetch_id=n, kind=kinds[n], delay=0.05) for n, p in enumerate(paths)]
        await fetcher.send(*here, task(server.url("/", "127.0.8.1"), fetch_id=9, delay=0.3))
        await fetcher.answered(5)
        assert [seen.host for seen in server.log] == ["127.0.0.1", "127.0.8.1"], "the others do not wait"
        put_off = [fetcher.outcomes[n] for n in (1, 2, 3)]
        assert all(isinstance(outcome, Deferred) and outcome.reason == "wait" for outcome in put_off)
        assert all(1.0 < outcome.not_before - time.time() <= 2.0 for outcome in put_off)
        await fetcher.send(task(server.url("/"), fetch_id=10, delay=0.05))
        await fetcher.answered(6)
    first, _, later = server.log
    assert later.at - first.at >= 2.0 * SLACK


@pytest.mark.parametrize("bad", ["/broken", "/hangup", "/forbidden"])
async def test_a_host_that_fails_twice_in_a_row_is_for_the_frontier_to_judge(
    server: Hostile, tmp_path: Path, bad: str
) -> None:
    """Or what was released to it would go on all through the cool-down of its breaker."""
    server.routes["/forbidden"] = answer("403 Forbidden", b"")
    async with served(tmp_path) as fetcher:
        paths = (bad, "/", bad, "/missing", bad, bad, "/", "/", bad)
        await fetcher.send(*(task(server.url(path), fetch_id=n) for n, path in enumerate(paths)))
        await fetcher.answered(9)
        assert {seen.target for seen in server.log[-1:]} == {bad}
        kinds = [type(fetcher.outcomes[n]) for n in range(9)]
        assert kinds == [Failed, Fetched, Failed, Failed, Failed, Failed, Deferred, Deferred, Deferred]
        assert all(fetcher.outcomes[n].not_before <= time.time() for n in (6, 7, 8))
        await fetcher.send(task(server.url("/"), fetch_id=10))
        await fetcher.answered(10)
        assert isinstance(fetcher.outcomes[10], Fetched)


async def test_a_rest_longer_than_any_that_is_honoured_is_cut_and_a_page_that_is_broken_asks_for_none(
    server: Hostile, tmp_path: Path
) -> None:
    server.routes["/broken"] = answer("500 Internal Server Error", b"", ("Retry-After: 9",))
    short = replace(loopback(), retry=RetrySettings(max_retry_after=0.5))
    async with served(tmp_path, settings=short) as fetcher:
        paths = ("/broken", "/", "/down", "/")
        await fetcher.send(*(task(server.url(path), fetch_id=n) for n, path in enumerate(paths)))
        await fetcher.answered(4)
        assert [type(fetcher.outcomes[n]) for n in range(4)] == [Failed, Fetched, Failed, Deferred]
        await fetcher.send(task(server.url("/"), fetch_id=4))
        await fetcher.answered(5)
    assert server.log[-1].at - server.log[-2].at >= 0.5 * SLACK


async def test_a_request_that_fails_counts_as_one(server: Hostile, tmp_path: Path) -> None:
    """A retry is the frontier's: to this service it is one more task."""
    async with served(tmp_path) as fetcher:
        paths = ("/garbage", "/", "/broken", "/", "/missing", "/")
        await fetcher.send(*(task(server.url(path), fetch_id=n, delay=0.2) for n, path in enumerate(paths)))
        await fetcher.answered(6)
    assert len(server.log) == 6
    assert min(gaps(server.log)) >= 0.2 * SLACK


async def test_a_restarted_service_waits_one_delay_for_each_host_it_was_just_at(
    server: Hostile, tmp_path: Path
) -> None:
    hosts = [f"127.0.4.{n}" for n in range(1, 6)]
    for run in range(3):
        async with served(tmp_path) as fetcher:
            for number, host in enumerate(hosts):
                await fetcher.send(task(server.url("/", host), fetch_id=run * 10 + number, delay=0.4))
            await fetcher.answered(len(hosts))
    assert len(server.log) == 15
    assert min(gaps(server.log)) >= 0.4 * SLACK


class Asked:
    """A lane that counts how often it was asked whether it is still ours, and says no from some point on."""

    def __init__(self, lane: Lane, yes: int) -> None:
        self._lane, self.yes = lane, yes

    def owned(self) -> bool:
        self.yes -= 1
        return self.yes >= 0 and self._lane.owned()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lane, name)


async def test_ownership_is_asked_for_before_each_single_request(server: Hostile, tmp_path: Path) -> None:
    lanes: list[Asked] = []

    def wrap(lane: Lane) -> Any:
        lanes.append(Asked(lane, yes=3))
        return lanes[-1]

    async with served(tmp_path, wrap=wrap) as fetcher:
        work = [task(server.url("/", f"127.0.5.{n}"), fetch_id=n, delay=0.1) for n in range(1, 21)]
        await fetcher.send(*work)
        await fetcher.answered(3)
        await asyncio.sleep(0.5)
        assert len(server.log) == 3
        lanes[0].yes = 1_000_000
        await fetcher.answered(20)


async def test_a_redirect_of_robots_txt_asks_for_ownership_too(server: Hostile, tmp_path: Path) -> None:
    server.routes["/old"] = answer("301 Moved", b"", ("Location: /robots.txt",))
    lanes: list[Asked] = []

    def wrap(lane: Lane) -> Any:
        lanes.append(Asked(lane, yes=1))
        return lanes[-1]

    async with served(tmp_path, wrap=wrap) as fetcher:
        await fetcher.send(task(server.url("/old"), fetch_id=1, kind="robots"))
        await fetcher.until(lambda: server.log)
        await asyncio.sleep(0.4)
        assert [seen.target for seen in server.log] == ["/old"]
        lanes[0].yes = 1_000_000
        await fetcher.answered(1)


async def test_the_rate_of_the_process_holds_over_all_hosts_redirects_of_robots_txt_included(
    server: Hostile, tmp_path: Path
) -> None:
    server.routes["/old"] = answer("301 Moved", b"", ("Location: /robots.txt",))
    async with served(tmp_path, settings=loopback(limits={"rate": 20.0})) as fetcher:
        await fetcher.send(
            *(task(server.url("/old", f"127.0.6.{n}"), fetch_id=n, kind="robots") for n in range(1, 11)),
            *(task(server.url("/", f"127.0.7.{n}"), fetch_id=100 + n) for n in range(1, 21)),
        )
        await fetcher.answered(30)
    times = sorted(seen.at for seen in server.log)
    assert len(times) == 40
    assert all(times[n + 20] - times[n] >= (20 - 2) / 20.0 * SLACK for n in range(20))
