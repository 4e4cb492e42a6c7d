"""Workers that hang, crash, eat memory or are killed; what it costs."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from headrace_parser.frames import ParsedReply
from headrace_parser.pool import ParserPool
from headrace_parser.service import PARSE
from headrace_runtime.clock import ManualClock
from headrace_schemas import codec
from headrace_schemas.errors import FatalError, TooNew
from tests.parser.fetched import fetched, message_of, running, settings

GOOD = "http://site.test/good"


def value(url: str = GOOD) -> bytes:
    return codec.encode(fetched(b"<title>t</title><a href=/x>", url))


async def parse_all(pool: ParserPool, urls: list[str]) -> list[ParsedReply]:
    return await asyncio.gather(*(pool.submit(value(url)) for url in urls))


def gone(pid: int) -> bool:
    """Dead, or a zombie that whoever adopted it has not reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


async def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def test_pages_come_back_parsed() -> None:
    async with running(settings(workers=2)) as pool:
        urls = [f"http://site.test/{n}" for n in range(50)]
        replies = await parse_all(pool, urls)
    assert [message_of(reply).url for reply in replies] == urls
    assert {reply.verdict for reply in replies} == {"ok"}
    assert all(len(reply.links) == 1 for reply in replies)


@pytest.mark.parametrize(
    ("deed", "verdict"),
    [
        ("hang", "timeout"),
        ("segfault", "crashed"),
        ("abort", "crashed"),
        ("exit", "crashed"),
        ("close", "crashed"),
        ("memory", "memory"),
        ("raise", "crashed"),
    ],
)
async def test_a_bad_page_costs_itself_and_no_neighbour(deed: str, verdict: str) -> None:
    urls = [f"http://site.test/{n}" for n in range(20)]
    urls[9] = f"http://site.test/9?{deed}"
    async with running(settings(deadline=2.0 if deed == "hang" else 30.0)) as pool:
        replies = await parse_all(pool, urls)
        assert [reply.verdict for reply in replies] == ["ok"] * 9 + [verdict] + ["ok"] * 10
        assert message_of(replies[9]).url == urls[9]
        assert message_of(replies[9]).verdict == verdict
        assert replies[9].why
        assert not any(reply.why for reply in replies if reply is not replies[9])
        [after] = await parse_all(pool, [GOOD])
        assert after.verdict == "ok"


async def test_a_frame_full_of_bad_pages_is_taken_apart() -> None:
    deeds = ["hang", "segfault", "memory", "raise"]
    urls = [f"http://site.test/{n}?{deeds[n // 2]}" if n % 2 else f"http://site.test/{n}" for n in range(8)]
    async with running(settings(workers=2, deadline=2.0)) as pool:
        replies = await parse_all(pool, urls)
    assert [reply.verdict for reply in replies] == ["ok", "timeout", "ok", "crashed", "ok", "memory", "ok", "crashed"]


async def test_a_page_that_was_under_way_when_someone_killed_the_worker_is_tried_again(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    async with running(registry=registry) as pool:
        [reply] = await parse_all(pool, [f"http://site.test/?once={tmp_path / 'died'}"])
        await until(lambda: pool.pids)
    assert (reply.verdict, reply.why) == ("ok", "")
    assert registry.get_sample_value("crawler_parser_restarts_total") == 1.0


async def test_idle_workers_that_are_killed_are_replaced() -> None:
    async with running(settings(workers=2)) as pool:
        before = set(pool.pids)
        for _ in range(7):  # more often than the pool would put up with in a row, had they done nothing
            await parse_all(pool, [GOOD] * 4)
            victim = pool.pids[0]
            os.kill(victim, signal.SIGKILL)
            await until(lambda: len(pool.pids) == 2 and victim not in pool.pids)  # noqa: B023
        assert set(pool.pids) != before
        [reply] = await parse_all(pool, [GOOD])
    assert reply.verdict == "ok"


async def test_signals_meant_for_the_service_do_not_end_its_workers() -> None:
    async with running() as pool:
        [pid] = pool.pids
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(pid, number)
        [reply] = await parse_all(pool, [GOOD])
        assert reply.verdict == "ok"
        assert pool.pids == [pid]


async def test_a_document_too_large_for_the_limit_is_out_of_memory_and_not_unparsable() -> None:
    big = codec.encode(fetched(b"<p><b>x</b></p>" * 400_000))
    async with running(settings(memory=100), parse=PARSE) as pool:
        replies = await asyncio.gather(pool.submit(big), pool.submit(value()))
    assert [reply.verdict for reply in replies] == ["memory", "ok"]


async def test_a_slow_page_within_the_deadline_is_left_alone() -> None:
    async with running(settings(deadline=5.0)) as pool:
        [reply] = await parse_all(pool, ["http://site.test/?slow=1"])
    assert reply.verdict == "ok"


async def test_the_deadline_is_for_a_page_and_not_for_a_frame() -> None:
    async with running(settings(deadline=2.0)) as pool:
        replies = await parse_all(pool, [f"http://site.test/{n}?slow=0.5" for n in range(6)])
    assert [reply.verdict for reply in replies] == ["ok"] * 6


async def test_nothing_is_left_of_a_closed_pool() -> None:
    async with running(settings(workers=2)) as pool:
        pids = list(pool.pids)
        hanging = pool.submit(value("http://site.test/?hang"))
        await asyncio.sleep(0.2)
    assert all(gone(pid) for pid in pids)
    hanging.cancel()


async def test_workers_that_cannot_start_are_an_error_and_not_a_loop() -> None:
    began = time.monotonic()
    with pytest.raises(FatalError, match="5 tries in a row"):
        async with running(parse="tests.parser.hostile:no_such_function"):
            pass
    assert time.monotonic() - began < 60.0


async def test_workers_that_can_no_longer_start_fail_whoever_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running() as pool:
        waiting = pool.submit(value("http://site.test/?hang"))
        monkeypatch.setattr(sys, "executable", "/nonexistent/python")
        os.kill(pool.pids[0], signal.SIGKILL)
        with pytest.raises(FatalError, match="cannot be run"):
            await waiting
        with pytest.raises(FatalError):
            pool.open(lambda replies: None, lambda error: None, merge=True)


async def test_a_worker_that_has_grown_makes_way_for_a_fresh_one() -> None:
    registry = CollectorRegistry()
    async with running(settings(memory=64), parse="tests.parser.hostile:grow", registry=registry) as pool:
        replies = [(await parse_all(pool, [GOOD] * 16)) for _ in range(10)]
        await until(lambda: (registry.get_sample_value("crawler_parser_restarts_total") or 0) >= 1)
    assert {reply.verdict for batch in replies for reply in batch} == {"ok"}


async def test_a_message_of_a_newer_release_is_refused() -> None:
    async with running() as pool:
        with pytest.raises(TooNew):
            pool.submit(b"H\xff" + value()[2:])


async def test_a_verdict_without_a_worker_carries_the_services_time() -> None:
    async with running(settings(deadline=0.5), clock=ManualClock(77.0)) as pool:
        [reply] = await parse_all(pool, ["http://site.test/?hang"])
    assert message_of(reply).parsed_at == 77.0


async def test_what_was_done_is_counted() -> None:
    registry = CollectorRegistry()
    async with running(settings(workers=2), registry=registry) as pool:
        await parse_all(pool, [GOOD] * 5 + ["http://site.test/?raise"])
        assert registry.get_sample_value("crawler_parser_workers") == 2.0
        assert pool.busy == 0
    assert registry.get_sample_value("crawler_pages_parsed_total", {"verdict": "ok"}) == 5.0
    assert registry.get_sample_value("crawler_pages_parsed_total", {"verdict": "crashed"}) == 1.0
    assert registry.get_sample_value("crawler_links_found_total") == 5.0
    assert registry.get_sample_value("crawler_parse_seconds_count") == 6.0
    assert registry.get_sample_value("crawler_parser_workers") == 0.0


PARENT = """
import asyncio, sys
from tests.parser.test_parser_pool import running, settings, value
async def main():
    async with running(settings(workers=2)) as pool:
        under_way = pool.submit(value("http://site.test/?hang"))
        await asyncio.sleep(0.3)
        print(*pool.pids, flush=True)
        await under_way
asyncio.run(main())
"""


async def test_workers_of_a_killed_service_are_gone_even_in_the_middle_of_a_page() -> None:
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    pids = [int(pid) for pid in (await parent.stdout.readline()).split()]
    assert len(pids) == 2
    parent.kill()
    await parent.communicate()
    await until(lambda: all(gone(pid) for pid in pids))
