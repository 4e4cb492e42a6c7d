"""What a test asks of a URL: the same words that `headrace explain` is made of."""

from typing import Any

from headrace_frontier.explain import Explainer
from headrace_frontier.look import Around, Rules
from headrace_schemas.urls import Canonicaliser, Found
from tests.frontier.world import World, key_of


def explainer(world: World) -> Explainer:
    wiring = world.wiring
    return Explainer(Canonicaliser(), Rules(world.partitioner, wiring.retry, wiring.robots, wiring.tuning))


def explained(world: World, url: str) -> dict[str, Any]:
    around = Around(world.desired.now, world.circumstances.backlog, world.clock.now())
    view = world.states[world.partitioner.partition(url)]
    return explainer(world).explain(view, Found(url, key_of(url)), around)
