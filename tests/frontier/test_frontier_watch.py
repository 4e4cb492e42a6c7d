"""Leases end by results, never by time; what nobody will ever answer is released again."""

import pytest

from headrace_frontier.watch import PARSED, RESULTS, STORED, TASKS, Watcher
from headrace_runtime.streams.seams import Edge, Streams
from headrace_schemas.errors import Unavailable
from tests.frontier.world import World, page

A = "http://a.test"


class Seen:
    """Stands where `Streams` stands, and shows how far a `World` has read. `committed`: of the fetcher."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.committed: dict[int, int] = {}
        self.pages = {PARSED: 0, STORED: 0}
        self.error: Exception | None = None

    async def edges(self, _: object) -> list[Edge]:
        if self.error is not None:
            raise self.error
        rows = []
        for p in range(len(self.world.states)):
            end = len(self.world.topics["urls.to_fetch", p])
            rows.append(Edge(*TASKS, p, self.committed.get(p, end), end))
            rows.append(
                Edge(*RESULTS, p, self.world.read["fetch.results", p], len(self.world.topics["fetch.results", p]))
            )
            rows += [Edge(*which, p, 0, lag) for which, lag in self.pages.items()]
        return rows


def watched(world: World) -> tuple[Seen, Watcher]:
    seen = Seen(world)
    streams: Streams = seen  # type: ignore[assignment]
    return seen, Watcher(world.circumstances, streams)


def lose(world: World) -> int:
    """The one task out there is never answered. → its number"""
    ((partition, record),) = world.waiting()
    number = world.tasks()[0].fetch_id
    world._answered[partition].add(record.offset)
    return number


async def test_a_lost_task_is_released_again_under_its_own_number() -> None:
    world = World({f"{A}/": page()})
    _, watcher = watched(world)
    world.seed(f"{A}/")
    world.settle_down()
    number = lose(world)
    for _ in range(3):
        await watcher.look()
    world.settle_down()
    assert [task.fetch_id for task in world.tasks()] == [number]
    assert world.registry.get_sample_value("crawler_released_again_total") == 1
    world.run()
    assert world.totals()["fetched"] == 1


async def test_nothing_is_lost_while_the_fetcher_has_tasks_to_answer() -> None:
    world = World({f"{A}/": page()})
    seen, watcher = watched(world)
    world.seed(f"{A}/")
    world.settle_down()
    seen.committed[0] = 0
    for _ in range(10):
        await watcher.look()
        world.clock.advance(1e6)
        world.settle_down()
    assert len(world.tasks()) == 1


async def test_nothing_is_lost_while_results_are_unread() -> None:
    world = World({f"{A}/": page()})
    _, watcher = watched(world)
    world.seed(f"{A}/")
    world.settle_down()
    world.answer()
    for _ in range(5):
        await watcher.look()
    assert world.circumstances.lanes[0].lost == 0
    world.settle_down()
    assert [task.kind for task in world.released] == ["robots", "page"]


async def test_a_task_released_after_the_first_look_is_not_meant() -> None:
    world = World({f"{A}/": page()})
    _, watcher = watched(world)
    world.seed(f"{A}/")
    world.settle_down()
    await watcher.look()
    world.answer()
    world.settle_down()
    for _ in range(2):
        await watcher.look()
    world.settle_down()
    assert [task.kind for task in world.released] == ["robots", "page"]


async def test_a_task_lost_twice_is_released_a_third_time_but_not_before_it_is_lost_again() -> None:
    world = World({f"{A}/": page()})
    seen, watcher = watched(world)
    world.seed(f"{A}/")
    world.settle_down()
    lose(world)
    for _ in range(3):
        await watcher.look()
    world.settle_down()
    seen.committed[0] = 1
    for _ in range(5):
        await watcher.look()
        world.settle_down()
    assert len(world.released) == 2
    del seen.committed[0]
    lose(world)
    for _ in range(3):
        await watcher.look()
    world.settle_down()
    assert len(world.released) == 3


async def test_a_new_owner_forgets_the_suspicions_of_the_last() -> None:
    world = World({f"{A}/": page()})
    _, watcher = watched(world)
    world.seed(f"{A}/")
    world.settle_down()
    await watcher.look()
    world.handlers[0].close()
    world.handlers[0] = world._built(0)
    await watcher.look()  # the second of the last owner's, the first of this one's
    assert world.circumstances.lanes[0].lost == 0


async def test_a_late_answer_to_a_task_released_again_settles_it_once() -> None:
    world = World({f"{A}/": page()})
    _, watcher = watched(world)
    world.seed(f"{A}/")
    world.settle_down()
    world.answer()
    world.settle_down()
    lose(world)
    for _ in range(3):
        await watcher.look()
    world.settle_down()
    world._answered[0].clear()
    world.answer()
    world.run()
    assert world.totals()["discovered"] == world.totals()["fetched"] == 1


async def test_the_backlog_is_the_larger_of_parser_and_storer() -> None:
    world = World({}, partitions=2)
    seen, watcher = watched(world)
    seen.pages = {PARSED: 3, STORED: 20}
    await watcher.look()
    assert world.circumstances.backlog == 40


async def test_a_broker_that_does_not_answer_is_asked_again_later() -> None:
    world = World({})
    seen, watcher = watched(world)
    seen.error = Unavailable("no")
    await watcher.look()
    seen.error = ValueError("a bug")
    with pytest.raises(ValueError):
        await watcher.look()


async def test_a_broker_that_is_away_is_said_once_an_outage(caplog: pytest.LogCaptureFixture) -> None:
    seen, watcher = watched(World({f"{A}/": page()}))
    for _ in range(2):
        seen.error = None
        await watcher.look()
        seen.error = Unavailable("no answer")
        for _ in range(20):
            await watcher.look()
    assert [record.getMessage() for record in caplog.records] == ["cannot see how far the others have read"] * 2
