"""Runs the services of one process until told to stop, or until one fails; either way it ends in time.

start each ─► join each group ─► lanes and background tasks run ─► stop each group, upstream first ─► close each
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Literal

from prometheus_client import CollectorRegistry

from headrace_runtime.clock import Deadline
from headrace_runtime.logs import get_logger
from headrace_runtime.patience import unless_told
from headrace_runtime.rootcause import root_cause
from headrace_runtime.service import Service
from headrace_runtime.streams.metered import LaneMeters, metered
from headrace_runtime.streams.seams import Membership, Streams
from headrace_schemas.errors import FatalError

AFTER_FAILURE = 3.0  # seconds to wind down after an error: what is under way is likely to fail as well
GRACE = 2.0  # seconds past the deadline after which what does not end is left behind

log = get_logger("process")

State = Literal["starting", "running", "stopping", "stopped"]


class Supervisor:
    """`services` in the order of the flow. Everything is called on the event loop; `run` once."""

    def __init__(
        self, streams: Streams, services: Sequence[Service], *, shutdown_timeout: float, registry: CollectorRegistry
    ) -> None:
        self._streams, self._services, self._registry = streams, services, registry
        self._shutdown_timeout = shutdown_timeout
        self._state: State = "starting"
        self._opened: list[Service] = []
        self._members: dict[str, Membership] = {}
        self._lanes: dict[str, asyncio.Task[None]] = {}
        self._background: list[asyncio.Task[None]] = []
        self._errors: list[BaseException] = []
        for service in services:
            LaneMeters.of(registry).expect(
                service.group, service.topics, lambda: self._state != "starting", partial(self._stalled, service.group)
            )

    async def run(self, stop: asyncio.Event) -> None:
        """Returns after `stop`, when all has ended; raises the first error of anything, when the rest has ended too."""
        try:
            await unless_told(stop, self._begin())
            await unless_told(stop, self._watch())
        except BaseException as error:
            self._errors.append(error)
        self._state = "stopping"
        await self._end(min(self._shutdown_timeout, AFTER_FAILURE) if self._errors else self._shutdown_timeout)
        self._state = "stopped"
        if self._errors:
            raise root_cause(self._errors[0])

    def ready(self) -> tuple[bool, str]:
        """A process with no lanes is ready too: it stands by, there being more processes than partitions."""
        waits = {group: stalled.why for group, member in self._members.items() if (stalled := member.stalled)}
        waits |= {service.group: why for service in self._opened if (why := service.waits())}
        if waits:
            return False, "; ".join(f"{group} waits: {why}" for group, why in waits.items())
        return self._state == "running", self._state

    def _stalled(self, group: str) -> float:
        member = self._members.get(group)
        return member.stalled.seconds if member and member.stalled else 0.0

    def busy(self) -> int:
        return sum(service.busy() for service in self._services)

    def status(self) -> dict[str, Any]:
        return {"state": self._state, "services": {service.group: self._status(service) for service in self._services}}

    def _status(self, service: Service) -> dict[str, Any]:
        member = self._members.get(service.group)
        own = {"lanes": sorted(lane.partition for lane in member.lanes) if member else [], "busy": service.busy()}
        try:
            return own | service.status()
        except Exception as error:  # asked for by people in trouble: half an answer beats none
            return own | {"error": repr(error)}

    # ---- beginning -------------------------------------------------------------------------------

    async def _begin(self) -> None:
        for service in self._services:
            self._opened.append(service)
            await service.start()
        for service in self._services:
            member = await self._streams.join(
                service.group, service.topics, metered(service.serve, self._registry), stateful=service.stateful
            )
            self._members[service.group] = member
            self._lanes[service.group] = asyncio.create_task(member.run(), name=service.group)
            for work in service.background:
                self._background.append(asyncio.create_task(_awaited(work), name=f"{service.group} background"))
        self._state = "running"

    async def _watch(self) -> None:
        """Until something fails; a group that ends by itself has failed too."""
        pending: set[asyncio.Task[None]] = {*self._lanes.values(), *self._background}
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
                if task in self._lanes.values():
                    raise FatalError(f"{task.get_name()} left its group unasked")

    # ---- end -------------------------------------------------------------------------------------

    async def _end(self, seconds: float) -> None:
        deadline, last = Deadline(seconds), Deadline(seconds + GRACE)
        for group, member in self._members.items():
            await self._within(last, f"stop of {group}", member.stop(deadline))
        await self._finish(self._lanes.values(), last)
        for task in self._background:
            task.cancel()
        await self._finish(self._background, last)
        closing = [self._within(last, f"close of {service.group}", service.close()) for service in self._opened]
        await asyncio.gather(*closing)

    async def _within(self, last: Deadline, what: str, work: Awaitable[None]) -> None:
        """Every step gets a moment even when time is up: most need none, and what they would do is worth it."""
        task = asyncio.ensure_future(work)
        await self._finish([task], last, what)

    async def _finish(self, tasks: "Sequence[asyncio.Future[None]] | Any", last: Deadline, what: str = "") -> None:
        waiting = list(tasks)
        if not waiting:
            return
        _, late = await asyncio.wait(waiting, timeout=max(0.25, last.left))
        for task in late:
            task.cancel()
            log.warning("not waited for", task=what or task.get_name())
        if late:
            await asyncio.wait(late, timeout=0.5)
        for task in waiting:
            if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                self._note(error)

    def _note(self, error: BaseException) -> None:
        if error in self._errors:
            return
        if self._errors:
            log.warning("failed as well", error=repr(error))
        self._errors.append(error)


async def _awaited(work: Callable[[], Awaitable[None]]) -> None:
    await work()
