"""Lives of a process that serves the ledger, ended between two steps of a commit or from outside, one after the other.

`python -m tests.contract.life torture SPEC STEPS KILLS SEED` forks each life from a process that has everything
imported, so that a life is short; `… serve SPEC` is one life. Both end when the work is complete.
"""

import asyncio
import functools
import importlib
import inspect
import json
import os
import random
import select
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

from headrace_runtime.clock import Deadline
from tests.contract.engines import open_from_spec
from tests.contract.ledger import LINKS, RESULTS, TASKS, complete, serve_fetcher, serve_ledger

DELAY = 0.04  # longest time a task takes, seconds: a life of a tenth of a second is in the middle of everything


LONGEST = 120  # seconds; a life that is not complete by then never will be, and must not outlive the test


class Death(NamedTuple):
    step: str
    after: bool
    """After the step, not before it."""
    calls: int
    """Of the step until then."""


def arrange(death: Death) -> None:
    """The `calls`-th time that the step is reached is the last."""
    module, _, name = death.step.partition(":")
    owner_name, _, method_name = name.rpartition(".")
    owner: Any = functools.reduce(getattr, owner_name.split("."), importlib.import_module(module))
    method: Callable[..., Any] = getattr(owner, method_name)
    left = death.calls

    def die(after: bool) -> None:
        nonlocal left
        left -= after is death.after
        if after is death.after and left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    @functools.wraps(method)
    def plain(*args: Any, **kwargs: Any) -> Any:
        die(False)
        result = method(*args, **kwargs)
        die(True)
        return result

    @functools.wraps(method)
    async def awaited(*args: Any, **kwargs: Any) -> Any:
        die(False)
        result = await method(*args, **kwargs)
        die(True)
        return result

    setattr(owner, method_name, awaited if inspect.iscoroutinefunction(method) else plain)


async def live(spec: str, born: Callable[[], None]) -> None:
    """Serves until the work is complete."""
    signal.alarm(LONGEST)
    streams = await open_from_spec(spec)
    frontier = await streams.join("frontier", [LINKS, RESULTS], serve_ledger, stateful=True)
    fetcher = await streams.join("fetcher", [TASKS], serve_fetcher(DELAY))
    running = [asyncio.create_task(member.run()) for member in (frontier, fetcher)]
    born()
    try:
        while not await complete(streams):
            await asyncio.wait(running, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
            for task in running:
                if task.done():
                    task.result()
        for member in (frontier, fetcher):
            await member.stop(Deadline(5.0))
        await asyncio.gather(*running)
    finally:
        await streams.close()


def torture(spec: str, steps: list[str], kills: int, seed: int) -> dict[str, int]:
    """→ how many lives ended where. The last one ends by itself, with the work complete."""
    chance = random.Random(seed)
    ends: Counter[str] = Counter()
    for number in range(kills):
        inside = bool(steps) and number % 4 != 3
        step = steps[number % len(steps)] if inside else ""
        death = Death(step, chance.random() < 0.5, chance.randrange(1, 40)) if inside else None
        status = _one_life(spec, death, None if inside else chance.uniform(0.0, 0.25))
        if os.WIFEXITED(status):
            ends[f"exit {os.WEXITSTATUS(status)}"] += 1
            if os.WEXITSTATUS(status):
                return ends
        else:
            ends[step.rpartition(".")[2] if inside else "outside"] += 1
    status = _one_life(spec, None, None)
    ends[f"last {os.waitstatus_to_exitcode(status)}"] += 1
    return ends


def _one_life(spec: str, death: Death | None, outside: float | None) -> int:
    """`outside`: seconds after birth at which it is killed from outside."""
    ear, mouth = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if death is not None:
                arrange(death)
            asyncio.run(live(spec, lambda: os.close(mouth)))
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(3)
        os._exit(0)
    os.close(mouth)
    if outside is not None:
        select.select([ear], [], [], 60.0)
        time.sleep(outside)
        os.kill(child, signal.SIGKILL)
    os.close(ear)
    return os.waitpid(child, 0)[1]


def main() -> None:
    verb, spec, *rest = sys.argv[1:]
    if verb == "serve":
        asyncio.run(live(spec, lambda: print("serving", flush=True)))
    else:
        steps, kills, seed = rest
        print(json.dumps(torture(spec, json.loads(steps), int(kills), int(seed))))


if __name__ == "__main__":
    main()
