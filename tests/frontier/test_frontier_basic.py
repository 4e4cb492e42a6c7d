from headrace_schemas.messages import State
from tests.frontier.world import World, page

A = "http://a.test"


def test_a_small_site_is_fetched_whole_after_its_robots_txt() -> None:
    world = World({f"{A}/": page(f"{A}/1", f"{A}/2"), f"{A}/1": page(f"{A}/"), f"{A}/2": page()})
    world.seed(f"{A}/")
    world.run()
    assert world.released[0].kind == "robots"
    assert world.totals()["fetched"] == world.totals()["discovered"] == 3
    assert all(count == 1 for count in world.asked.values())
    assert State.FETCHED
