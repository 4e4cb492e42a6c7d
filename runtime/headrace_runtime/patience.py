"""Starts that wait for what is not there yet, and end at once when told to."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from headrace_runtime.clock import SystemClock
from headrace_runtime.logs import get_logger
from headrace_schemas.errors import TopicsMissing, Unavailable

T = TypeVar("T")

GRACE = 2.0  # seconds that work which was told to stop has for leaving nothing open
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0  # seconds between two tries
REMIND = 300.0  # seconds after which a wait is said once more

log = get_logger("start")


async def unless_told(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """What `work` returns; None if `stop` came first. A start that waits for a broker must not hold up a stop."""
    if stop.is_set():
        work.close()
        return None
    told, task = asyncio.create_task(stop.wait()), asyncio.create_task(work)
    try:
        await asyncio.wait((task, told), return_when=asyncio.FIRST_COMPLETED)
    finally:
        told.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait((task,), timeout=GRACE)
    if task.done() and not (task.cancelled() and stop.is_set()):
        return task.result()
    return None


def _nobody(why: str) -> None:
    pass


async def patiently(attempt: Callable[[], Awaitable[T]], tell: Callable[[str], None] = _nobody) -> T:
    """Until it succeeds: in a fleet the broker, its name or the topics may come later than we do. One line a reason,
    and a reminder now and then; what no waiting mends is raised. `tell` hears the reason each time."""
    clock, pause = SystemClock(), FIRST_PAUSE
    began, said = clock.monotonic(), False
    while True:
        try:
            found = await attempt()
        except (Unavailable, TopicsMissing) as error:
            why = " ".join(str(error).split())
            tell(why)
            log.seldom(type(error).__name__, REMIND, "waiting", why=why)
            said = True
        else:
            if said:
                log.warning("waited, and goes on", seconds=round(clock.monotonic() - began, 1))
            return found
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
