"""Whatever the web does and wherever the process dies: the books stay true, politeness holds, and it ends."""

import msgspec
import pytest

from headrace.completion import Scan
from headrace_frontier.tuning import Tuning
from headrace_runtime.streams.seams import Edge
from headrace_schemas.messages import Fetched, FetchTask, Outcome, Robots
from headrace_schemas.urls import host_of, origin_of
from tests.frontier.webs import tangled
from tests.frontier.world import INPUTS, World

SMALL = Tuning(partition_window=7, host_window=3, lookahead=2, visits=3, unfetched=4, hosts_cached=2, origins_cached=2)


def crawled(seed: int, **more: object) -> World:
    world = World(tangled(seed), seed=seed, **more)  # type: ignore[arg-type]
    world.seed("http://h0.test/0", "http://h1.test/0", "http://h2.test/0")
    world.run()
    return world


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("crash", [0.0, 0.2])
def test_every_crawl_ends_with_every_url_settled(seed: int, partitions: int, crash: float) -> None:
    world = crawled(seed, partitions=partitions, crash=crash, tuning=SMALL)
    totals = world.totals()
    assert totals["queued"] == totals["in_flight"] == totals["tasks_in_flight"] == 0
    assert totals["discovered"] >= 3


@pytest.mark.parametrize(
    ("seed", "partitions", "tuning", "limit", "by", "crash"),
    [
        (1059, 1, SMALL, 0, "domain", 0.0),  # the due index passed a host put back within a millisecond
        (1111, 2, Tuning(), 30, "host", 0.0),
        (
            1175,
            5,
            Tuning(),
            1,
            "host",
            0.4,
        ),  # asked before the pool had heard from all, and was never told that it is spent
    ],
)
def test_crawls_that_once_stood_still(
    seed: int, partitions: int, tuning: Tuning, limit: int, by: str, crash: float
) -> None:
    totals = crawled(seed, partitions=partitions, tuning=tuning, max_pages=limit, by=by, crash=crash).totals()
    assert totals["queued"] == totals["behind_budget"]


@pytest.mark.parametrize("seed", range(6))
def test_no_page_is_asked_for_before_the_robots_txt_of_its_origin_is_known(seed: int) -> None:
    world = crawled(seed, crash=0.1)
    known: set[str] = set()
    for _, task, outcome in world.log:
        if task.kind == "robots":
            known |= {origin_of(task.url)} if isinstance(outcome, Robots) else set()
        else:
            assert origin_of(task.url) in known


@pytest.mark.parametrize("seed", range(6))
def test_a_crash_changes_nothing_of_what_is_fetched(seed: int) -> None:
    """Retries and redirects included: the same pages, once each."""
    undisturbed, crashed = crawled(seed, partitions=2), crawled(seed, partitions=2, crash=0.25)
    assert fetched(undisturbed) == fetched(crashed)
    assert len(fetched(crashed)) == len(set(fetched(crashed)))


@pytest.mark.parametrize("seed", range(4))
def test_a_page_that_answers_at_once_is_asked_for_once(seed: int) -> None:
    world = crawled(seed, partitions=3)
    good = {url for url, page in world.web.items() if isinstance(page.outcomes[0], Fetched)}
    assert all(world.asked[url] <= 1 for url in good)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("limit", [1, 7, 20])
def test_max_pages_is_met_exactly_and_never_passed(seed: int, partitions: int, limit: int) -> None:
    without = crawled(seed, partitions=partitions)
    possible = without.totals()["fetched"]
    world = crawled(seed, partitions=partitions, crash=0.1, max_pages=limit)
    assert world.totals()["fetched"] == min(limit, possible)
    assert len(fetched(world)) == min(limit, possible)
    assert world.totals()["queued"] == world.totals()["behind_budget"]
    assert world.totals()["budget_held"] == 0


@pytest.mark.parametrize("partitions", [1, 4])
def test_raising_max_pages_makes_the_crawl_go_on_to_the_new_limit(partitions: int) -> None:
    world = crawled(3, partitions=partitions, max_pages=5)
    assert world.totals()["fetched"] == 5
    world.desired.change(max_pages=9)
    world.run()
    assert world.totals()["fetched"] == 9
    world.desired.change(max_pages=0)
    world.run()
    assert world.totals()["queued"] == 0


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("partitions", [1, 4])
def test_no_scan_is_complete_before_every_partition_has_taken_up_a_raised_limit(seed: int, partitions: int) -> None:
    world = crawled(seed, partitions=partitions, max_pages=5)
    assert not scanned(world).unfinished()
    world.desired.change(max_pages=9)
    assert scanned(world).unfinished()
    while scanned(world).unfinished():
        world.clock.advance(0.01)
        world.turn(world.random.randrange(partitions))
        world.answer(1)
    assert world.totals()["fetched"] == 9


def scanned(world: World) -> Scan:
    """As the proof of completion sees this world between two units."""
    topics = [(topic, "frontier", p, world.read[topic, p]) for topic in INPUTS for p in range(len(world.states))]
    edges = [Edge(topic, group, p, read, len(world.topics[topic, p])) for topic, group, p, read in topics]
    control = msgspec.structs.replace(world.desired.now, seeded_run=1)
    return Scan(
        control, (*edges, Edge("urls.to_fetch", "fetcher", 0, 0, len(world.waiting()))), tuple(world.progress.values())
    )


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_limit_set_later_counts_the_pages_fetched_before(partitions: int) -> None:
    world = World(tangled(3), partitions=partitions, seed=3)
    world.seed("http://h0.test/0", "http://h1.test/0", "http://h2.test/0")
    while world.totals()["fetched"] < 4:
        for partition in range(partitions):
            world.turn(partition)
        world.answer(1)
    world.desired.change(mode="paused")
    for _ in range(50):
        for partition in range(partitions):
            world.turn(partition)
        world.answer()
    before = world.totals()["fetched"]
    world.desired.change(mode="running", max_pages=before + 3)
    world.run()
    assert world.totals()["fetched"] == before + 3


@pytest.mark.parametrize("seed", range(3))
def test_a_window_is_never_passed(seed: int) -> None:
    world = World(tangled(seed, hosts=12), seed=seed, tuning=SMALL, crash=0.1)
    world.seed(*(f"http://h{n}.test/0" for n in range(12)))
    for _ in range(400):
        world.clock.advance(0.01)
        world.turn(0)
        tasks = world.tasks()
        assert len(tasks) <= SMALL.partition_window
        assert max((sum(host_of(t.url) == host_of(o.url) for o in tasks) for t in tasks), default=0) <= 3
        world.answer(2)


def fetched(world: World) -> list[str]:
    def is_page(task: FetchTask, outcome: Outcome) -> bool:
        return task.kind == "page" and isinstance(outcome, Fetched)

    return sorted(task.url for _, task, outcome in world.log if is_page(task, outcome))
