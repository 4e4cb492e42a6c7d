"""Who is killed or paused, when and for how long: drawn from a seed, known before the first process starts."""

import random
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

_FIRST, _LAST = 0.02, 0.85
"""Share of all requests between which faults lie: the rest is for the crawl to show that it can still end."""
_MOST_WAIT = 1.0


What = Literal["kill", "stop"]


class Fault(Struct, frozen=True):
    at: int
    """Requests that the web has been asked when it is due. Not a time: a slower machine meets the same faults."""
    wait: float
    """Seconds after that, so that it hits whatever is done between two requests too."""
    what: What
    """SIGKILL, or SIGSTOP and later SIGCONT."""
    who: str
    seconds: float
    """Until it is started again, or goes on."""

    def __str__(self) -> str:
        back = "started again" if self.what == "kill" else "goes on"
        return f"request {self.at:>5} + {self.wait:.2f} s: {self.what} {self.who}, {back} after {self.seconds:g} s"


def plan(
    dice: random.Random,
    requests: int,
    who: Sequence[str],
    *,
    kills: int,
    stops: int,
    down: Sequence[float],
    paused: Sequence[float],
    last: float = _LAST,
) -> list[Fault]:
    """`down`, `paused`: seconds to choose from. `last`: share of the requests by which the last fault is due.

    Everyone is drawn once before anyone is drawn again.
    """
    kinds: list[What] = ["kill" for _ in range(kills)]
    kinds += ["stop" for _ in range(stops)]
    dice.shuffle(kinds)
    moments = sorted(dice.uniform(_FIRST, last) for _ in kinds)
    return [
        Fault(
            at=round(moment * requests),
            wait=round(dice.uniform(0, _MOST_WAIT), 2),
            what=kind,
            who=name,
            seconds=dice.choice(down if kind == "kill" else paused),
        )
        for moment, kind, name in zip(moments, kinds, _decks(dice, who), strict=False)
    ]


def merged(*plans: list[Fault]) -> list[Fault]:
    return sorted((fault for one in plans for fault in one), key=lambda fault: fault.at)


def _decks(dice: random.Random, who: Sequence[str]) -> Iterator[str]:
    while True:
        yield from dice.sample(list(who), len(who))
