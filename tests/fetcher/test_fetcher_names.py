"""Name servers that are slow, dead or ours alone to blame, with the whole service in between or one part by itself."""

import asyncio
import resource
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace_fetcher import lookups
from headrace_fetcher.faults import Exhausted, TransportFault
from headrace_fetcher.lookups import Lookups
from headrace_schemas.messages import Deferred, Failed, Fetched
from tests.fetcher.hostile import Hostile, answer, hostile_server
from tests.fetcher.rig import CLIENTS, rig, task
from tests.fetcher.served import loopback, served


@pytest.fixture
async def server() -> AsyncIterator[Hostile]:
    async with hostile_server() as hostile:
        yield hostile


class Names:
    """What the system's resolver does: names with an address, and a dead name server for all others."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **known: str) -> None:
        self.known = {f"{name}.test": address for name, address in known.items()}
        self.given_up = threading.Event()
        self.asked: list[str] = []
        monkeypatch.setattr(lookups, "getaddrinfo", self._look_up)

    def _look_up(self, host: str) -> tuple[str, ...]:
        self.asked.append(host)
        if host not in self.known:
            self.given_up.wait(60)
            raise OSError("the system gave up at last")
        return (self.known[host],)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    made = Names(monkeypatch, good="127.0.3.1", moved="127.0.3.2")
    yield made
    made.given_up.set()


async def test_names_that_hang_take_no_place_from_others_and_fail_in_their_time(
    server: Hostile, names: Names, tmp_path: Path
) -> None:
    settings = loopback(connect_timeout=1.5, limits={"concurrency": 4})
    dead = [task(f"http://dead{n}.test/", fetch_id=n) for n in range(30)]
    async with served(tmp_path, settings=settings) as fetcher:
        began = time.monotonic()
        await fetcher.send(*dead)
        await fetcher.until(lambda: len(names.asked) == 30)
        await fetcher.send(task(server.url("/", "good.test"), fetch_id=100), task(server.url("/"), fetch_id=101))
        await fetcher.answered(2)
        assert {type(outcome) for outcome in fetcher.outcomes.values()} == {Fetched}, "while all the others hang"
        await fetcher.answered(32)
        assert time.monotonic() - began < 30, "all together and not four at a time, or one after the other"
        failed = [fetcher.outcomes[n] for n in range(30)]
        assert all(isinstance(one, Failed) and (one.reason, one.retriable) == ("dns", True) for one in failed)
        assert fetcher.service.busy() == 0
        assert await fetcher.settled()


async def test_a_redirect_of_robots_txt_to_a_name_that_hangs_takes_no_place_from_others(
    server: Hostile, names: Names, tmp_path: Path
) -> None:
    server.routes["/away"] = answer("301 Moved", b"", ("Location: http://dead.test/robots.txt",))
    settings = loopback(connect_timeout=1.5, limits={"concurrency": 1})
    async with served(tmp_path, settings=settings) as fetcher:
        await fetcher.send(task(server.url("/away"), fetch_id=1, kind="robots"))
        await fetcher.until(lambda: names.asked)
        await fetcher.send(task(server.url("/", "good.test"), fetch_id=2))
        await fetcher.answered(1)
        assert list(fetcher.outcomes) == [2]
        await fetcher.answered(2)
        assert getattr(fetcher.outcomes[1], "reason", "") == "dns"


# ---- threads ----


async def test_who_is_left_behind_is_waited_for_no_more_and_its_place_is_another_names(names: Names) -> None:
    many = Lookups(timeout=0.05, patience=20.0, at_once=2, left_behind=100)
    answers = await asyncio.gather(*(many.ask(f"dead{n}.test") for n in range(20)), return_exceptions=True)
    assert all(isinstance(answer, TransportFault) and answer.retriable for answer in answers)
    assert await many.ask("good.test") == ("127.0.3.1",)


async def test_with_every_thread_left_behind_it_is_our_own_shortage_until_one_comes_back(names: Names) -> None:
    few = Lookups(timeout=0.05, patience=0.3, at_once=2, left_behind=3)
    answers = await asyncio.gather(*(few.ask(f"dead{n}.test") for n in range(10)), return_exceptions=True)
    kinds = [type(answer) for answer in answers]
    assert (kinds.count(TransportFault), kinds.count(Exhausted)) == (5, 5)
    assert len(names.asked) == 5, "no thread more than that"
    with pytest.raises(Exhausted):
        await few.ask("good.test")
    names.given_up.set()
    async with asyncio.timeout(20):
        while few._left:
            await asyncio.sleep(0.005)
    assert await few.ask("good.test") == ("127.0.3.1",)


async def test_whoever_stops_waiting_leaves_no_place_taken(names: Names) -> None:
    one = Lookups(timeout=20.0, patience=20.0, at_once=1, left_behind=3)
    for number in range(3):
        waiting = asyncio.create_task(one.ask(f"dead{number}.test"))
        while len(names.asked) == number:
            await asyncio.sleep(0.001)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    assert await one.ask("good.test") == ("127.0.3.1",)


# ---- descriptors ----


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))  # fewer than are open, whatever is closed meanwhile
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_without_a_descriptor_left_no_name_is_said_not_to_exist() -> None:
    """The C library says that of any, `localhost` included."""
    asker = Lookups(timeout=5.0, patience=5.0)
    for name in ("localhost", "nowhere.invalid"):
        with no_descriptor_left(), pytest.raises(Exhausted):
            await asker.ask(name)
    assert await asker.ask("localhost")


@pytest.mark.parametrize("client", CLIENTS)
async def test_without_a_descriptor_left_a_task_by_name_is_put_off(client: str, server: Hostile) -> None:
    async with rig(client) as fetcher:
        assert isinstance((await fetcher.fetch(server.url("/", "127.0.0.2"))).outcome, Fetched)
        with no_descriptor_left():
            answer = await fetcher.fetch(server.url("/", "localhost"))
        assert answer.outcome == Deferred(0.0, "exhausted")
        assert (fetcher.trip.asked, answer.figures.asked_at) == (False, 0.0)
