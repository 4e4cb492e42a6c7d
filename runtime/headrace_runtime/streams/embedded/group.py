"""Who serves which partition of a group: memberships of one process share them in contiguous ranges."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from headrace_runtime.clock import Deadline
from headrace_runtime.streams.embedded.lane import EmbeddedLane
from headrace_runtime.streams.seams import Serve
from headrace_schemas.errors import FatalError, LaneLost

log = logging.getLogger(__name__)

REVOKE = 10.0  # seconds a lane may drain before its partition goes to another membership
GRACE = 1.0  # seconds past the deadline before `serve` is cancelled: it may be in its last commit
REOPEN = (0.05, 1.0)  # seconds before a lost lane is opened anew, doubling up to the second number


class Group:
    """A partition has one runner at the most; its next owner's starts when it has ended."""

    def __init__(self, name: str, partitions: int) -> None:
        self.name, self.partitions = name, partitions
        self._members: list[Member] = []
        self._runners: dict[int, Runner] = {}

    def enter(self, member: "Member") -> None:
        self._members.append(member)
        self._balance()

    def leave(self, member: "Member", deadline: Deadline) -> None:
        if member in self._members:
            self._members.remove(member)
        for runner in self.runners_of(member):
            runner.stop(deadline)
        self._balance()

    def runners_of(self, member: "Member") -> list["Runner"]:
        return [runner for runner in self._runners.values() if runner.member is member]

    def ended(self, runner: "Runner") -> None:
        del self._runners[runner.partition]
        if runner.error is not None:
            runner.member.fail(runner.error)
        elif not runner.stopping and runner.member in self._members:  # cancelled from outside: the loop is ending
            self._members.remove(runner.member)
        self._balance()

    def _balance(self) -> None:
        for partition, owner in enumerate(shares(self._members, self.partitions)):
            runner = self._runners.get(partition)
            if runner is None:
                if owner is not None:
                    self._runners[partition] = Runner(self, owner, partition)
            elif runner.member is not owner:
                runner.stop(Deadline(REVOKE))


def shares(members: Sequence["Member"], partitions: int) -> list["Member | None"]:
    """The owner of each partition; the first members get one more where it does not come out even."""
    if not members:
        return [None] * partitions
    whole, more = divmod(partitions, len(members))
    owners: list[Member | None] = []
    for i, member in enumerate(members):
        owners += [member] * (whole + (i < more))
    return owners


class Member:
    """This process's part in a group, from `run` to `stop`."""

    def __init__(self, group: Group, serve: Serve, open_lane: Callable[[int], EmbeddedLane]) -> None:
        self.serve, self.open_lane = serve, open_lane
        self._group = group
        self._over = asyncio.Event()
        self._error: Exception | None = None

    @property
    def lanes(self) -> Sequence[EmbeddedLane]:
        runners = sorted(self._group.runners_of(self), key=lambda runner: runner.partition)
        return [runner.lane for runner in runners if runner.lane is not None]

    @property
    def stalled(self) -> None:
        """There is no server to wait for; a disk that fails is an error."""

    async def run(self) -> None:
        if not self._over.is_set():
            self._group.enter(self)
        try:
            await self._over.wait()
        finally:
            await self.abandon()
        if self._error is not None:
            raise self._error

    async def stop(self, deadline: Deadline) -> None:
        self._group.leave(self, deadline)
        await self._drained()
        self._over.set()

    def fail(self, error: Exception) -> None:
        """Called by the group when a lane raised: the first error is the one that is told."""
        self._error = self._error or error
        self._group.leave(self, Deadline(0.0))
        self._over.set()

    async def abandon(self) -> None:
        """Without draining: what was under way is read again."""
        self._group.leave(self, Deadline(0.0))
        for runner in self._group.runners_of(self):
            runner.cancel()
        await self._drained()
        self._over.set()

    async def _drained(self) -> None:
        while runners := self._group.runners_of(self):
            await asyncio.wait([runner.task for runner in runners])
            await asyncio.sleep(0)  # the callbacks that take them off the list


class Runner:
    """Serves one partition, with a new lane after each `LaneLost`, until it is stopped or `serve` fails."""

    def __init__(self, group: Group, member: Member, partition: int) -> None:
        self.member, self.partition = member, partition
        self.lane: EmbeddedLane | None = None
        self.error: Exception | None = None
        self._name = f"{group.name}[{partition}]"
        self._stopping: Deadline | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self.task = asyncio.create_task(self._run(), name=self._name)
        self.task.add_done_callback(lambda _: self._finish(group))

    def stop(self, deadline: Deadline) -> None:
        if self._stopping is not None and deadline.left >= self._stopping.left:
            return
        self._stopping = deadline
        if self.lane is not None:
            self.lane.stop(deadline)
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_later(deadline.left + GRACE, self.cancel)

    @property
    def stopping(self) -> bool:
        return self._stopping is not None

    def cancel(self) -> None:
        self.task.cancel()

    async def _run(self) -> None:
        pause, longest = REOPEN
        while self._stopping is None:
            try:
                await self._serve()
            except LaneLost as lost:
                log.warning("%s is opened anew: %s", self._name, lost)
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)
            except Exception as error:
                self.error = error
                return

    async def _serve(self) -> None:
        lane = self.lane = self.member.open_lane(self.partition)
        try:
            await self.member.serve(lane)
            if lane.stopping is None:
                raise FatalError(f"{self._name}: serve returned though its lane was not stopping")
        finally:
            lane.close()
            self.lane = None

    def _finish(self, group: Group) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        group.ended(self)
