"""The real frontier in a process of its own, which notes a hash of its state before and after each commit.

`python -m tests.kafka.frontier_child SPEC NOTES`; ends cleanly on SIGTERM. A note is a line of JSON: what, of which
partition, and the hash. `opened` is the state as a lane finds it, `staged` what a commit is to make of it, `committed`
what is there after the commit. A process killed between the last two has committed, or it has not.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import msgspec

from headrace_frontier.audit import Audit, state_hash
from headrace_frontier.service import build
from headrace_runtime.clock import SystemClock
from headrace_runtime.control import ControlWatch
from headrace_runtime.endpoint import new_registry
from headrace_runtime.service import Parts, Service
from headrace_runtime.streams.memory import MemoryState
from headrace_runtime.streams.seams import Lane, StateView, Unit
from headrace_runtime.supervisor import Supervisor
from headrace_schemas.settings import BreakerSettings, RetrySettings, RobotsSettings, Settings, StreamSettings
from tests.contract.engines import open_from_spec

_LAST = b"\xff" * 64


class Notes:
    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def note(self, what: str, partition: int, state: StateView, **more: Any) -> None:
        line = json.dumps({"what": what, "partition": partition, "hash": state_hash(state), **more})
        os.write(self._file, line.encode() + b"\n")  # the system has it: a SIGKILL does not take it back


class Noted:
    """A lane that tells of its commits."""

    def __init__(self, lane: Lane, notes: Notes) -> None:
        self._lane, self._notes = lane, notes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lane, name)

    async def commit(self, unit: Unit) -> None:
        lane = self._lane
        staged = MemoryState(dict(lane.state.scan(b"", _LAST)))
        staged.apply(unit)
        deleted = sum(value is None for value in unit.writes.values())
        self._notes.note("staged", lane.partition, staged, written=len(unit.writes) - deleted, deleted=deleted)
        await lane.commit(unit)
        self._notes.note("committed", lane.partition, lane.state)


def noted(service: Service, notes: Notes) -> Service:
    async def serve(lane: Lane) -> None:
        entries = sum(1 for _ in lane.state.scan(b"", _LAST))
        differences = list(Audit(lane.state).differences())
        notes.note("opened", lane.partition, lane.state, entries=entries, differences=differences)
        await service.serve(Noted(lane, notes))

    return Service(
        group=service.group, topics=service.topics, serve=serve, stateful=True, background=service.background
    )


async def main(spec: str, notes: Path) -> None:
    streams = await open_from_spec(spec)
    settings = msgspec.structs.replace(
        Settings(),
        streams=StreamSettings(url="kafka://given.by.spec:1", partitions=streams.partitions),
        # nothing here waits for a real server to get better
        retry=RetrySettings(base=0.01, cap=0.02, max_retry_after=0.05),
        breaker=BreakerSettings(cooldown=0.05),
        robots=RobotsSettings(retry=0.01),
    )
    control = await ControlWatch.open(streams)
    registry = new_registry()
    service = build(settings, Parts(streams, control, SystemClock(), registry, notes.parent))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    try:
        await Supervisor(streams, [noted(service, Notes(notes))], shutdown_timeout=20, registry=registry).run(stop)
    finally:
        await control.close()
        await streams.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
