"""A spent `max_pages` on several partitions, which know of the pool only what they asked it."""

from headrace.completion import behind_budget
from headrace_schemas.messages import Progress
from tests.frontier.world import Page, World, failing, page

HOSTS = [f"http://h{number}.test" for number in range(12)]


def host_of_partition(world: World, partition: int) -> str:
    return next(host for host in HOSTS if world.partitioner.partition(f"{host}/") == partition)


def worked(world: World) -> tuple[Progress, ...]:
    """As far as it goes without waiting for any rest to end."""
    for _ in range(40):
        for partition in range(len(world.states)):
            world.turn(partition)
        world.answer()
        world.clock.advance(0.01)
    return tuple(world.progress.values())


def resting(most: int) -> tuple[World, tuple[Progress, ...]]:
    """The host of partition 2 asks for a long rest with three pages queued; then `most` pages may be fetched."""
    plain = World({}, partitions=3)
    busy, others = host_of_partition(plain, 2), [host_of_partition(plain, partition) for partition in (0, 1)]
    web = {f"{busy}/{n}": Page((failing(429, retry_after=3_000.0), page().outcomes[0])) for n in range(3)}
    web |= {f"{host}/{n}": page() for host in others for n in range(4)}
    world = World(web, partitions=3, max_pages=most)
    world.seed(*(url for url in web if url.startswith(busy)))
    worked(world)
    assert world.totals()["fetched"] == 0
    world.seed(*(url for url in web if not url.startswith(busy)))
    return world, worked(world)


def test_nothing_waits_for_a_host_to_have_rested_once_the_pool_is_spent() -> None:
    world, rows = resting(4)
    totals = world.totals()
    assert (totals["fetched"], totals["in_flight"], totals["queued"]) == (4, 0, 7)
    assert behind_budget(rows) == 7
    world.clock.advance(4_000.0)
    world.run()
    assert world.totals()["fetched"] == 4
    assert behind_budget(tuple(world.progress.values())) == world.totals()["behind_budget"] == 7


def test_a_host_that_rests_is_waited_for_while_a_credit_is_left() -> None:
    world, rows = resting(9)
    assert (world.totals()["fetched"], world.totals()["queued"]) == (8, 3)
    assert behind_budget(rows) == 0
    world.run()
    assert (world.totals()["fetched"], behind_budget(tuple(world.progress.values()))) == (9, 2)


def test_a_credit_held_anywhere_may_still_be_used() -> None:
    pool, other = Progress(0, pool_spent=True), Progress(1, queued=5, needing=5)
    assert behind_budget((pool, other)) == 5
    assert behind_budget((pool, other, Progress(2, in_flight=1, budget_held=1))) == 0
    assert behind_budget((Progress(0), other)) == 0
    assert behind_budget((Progress(0), Progress(1, queued=5, behind_budget=4))) == 4, "of a release that knew no better"
