"""Settings that turned the backlog away, and settings that let it in again: nothing of it is lost."""

from typing import Any

import pytest

from headrace_frontier.aside import ASIDE
from headrace_frontier.tuning import Tuning
from tests.frontier.explaining import explained
from tests.frontier.world import World, link, page

WEB = {f"http://h{h}.test/{n}": page() for h in range(3) for n in range(12)}
FEW = Tuning(unfetched=4)


def kept(world: World) -> int:
    return sum(1 for state in world.states for _ in state.scan(ASIDE, ASIDE + b"\xff" * 17))


@pytest.mark.parametrize("crash", [0.0, 0.2])
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize(
    ("narrow", "wide", "reason"),
    [
        ({"scope_mode": "host", "scope_roots": ("h0.test",)}, {"scope_mode": "all"}, "host_not_allowed"),
        ({"scope_deny": ("/[0-9]$",)}, {"scope_deny": ("/9$",)}, "denied_pattern"),
        ({"max_depth": 1}, {"max_depth": 2}, "depth"),
    ],
)
def test_what_was_queued_comes_back_when_the_settings_let_it_in_again(
    narrow: dict[str, Any], wide: dict[str, Any], reason: str, partitions: int, crash: float
) -> None:
    world = World(WEB, partitions=partitions, crash=crash, seed=partitions, tuning=FEW, max_pages=5)
    world.find(*(link(url, number % 3) for number, url in enumerate(WEB)))
    world.run()
    world.desired.change(max_pages=0, **narrow)
    world.run()
    refused = world.totals()["refused"]
    assert refused > 4
    assert world.reasons("refused_by") == {reason: refused}
    assert kept(world) == refused
    world.desired.change(**wide)
    world.run()
    left = [url for url in WEB if not world.asked[url]]
    assert {explained(world, url)["scope"]["reason"] for url in left} <= {reason}
    assert world.totals()["refused"] == kept(world) == len(left)
    assert world.totals()["fetched"] == len(WEB) - len(left)
    assert max(world.asked.values()) == 1


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_partition_has_taken_up_settings_when_all_that_it_had_put_aside_is_back(partitions: int) -> None:
    world = World(WEB, partitions=partitions, tuning=FEW, max_pages=1)
    world.seed(*WEB)
    world.run()
    world.desired.change(max_pages=0, scope_deny=("h",))
    world.run()
    world.desired.change(scope_deny=(), mode="paused")
    for partition, state in enumerate(world.states):
        while any(True for _ in state.scan(ASIDE, ASIDE + b"\xff" * 17)):
            assert world.progress[partition].revision < world.desired.now.revision
            world.turn(partition)
        world.turn(partition)
        assert world.progress[partition].revision == world.desired.now.revision
    assert world.totals()["queued"] == len(WEB) - 1


def test_what_was_found_again_meanwhile_does_not_come_back_a_second_time() -> None:
    world = World({"http://a.test/1": page(), "http://a.test/2": page()}, max_pages=1)
    world.find(link("http://a.test/1", 3), link("http://a.test/2", 3))
    world.run()
    world.desired.change(max_pages=0, max_depth=2)
    world.run()
    world.find(*(link(url, 1) for url in world.web))
    world.run()
    assert world.totals()["fetched"] == 2
    world.desired.change(max_depth=5)
    world.run()
    assert (max(world.asked.values()), kept(world)) == (1, 0)


def test_a_frontier_killed_after_each_unit_brings_back_all_of_it_once() -> None:
    world = World(WEB, tuning=FEW, max_pages=1)
    world.seed(*WEB)
    world.run()
    world.desired.change(max_pages=0, scope_deny=("h",))
    world.run()
    assert kept(world) == len(WEB) - 1
    world.desired.change(scope_deny=(), mode="paused")
    units = 0
    while kept(world):
        world.restart(0)
        world.turn(0)
        units += 1
    assert units > 1
    world.desired.change(mode="running")
    world.run()
    assert world.totals()["fetched"] == len(WEB)
    assert max(world.asked.values()) == 1
