"""What a service is to the process that runs it, and the finished parts it is built from."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from headrace_runtime.clock import Clock
from headrace_runtime.control import ControlWatch
from headrace_runtime.streams.seams import Serve, Streams


async def _nothing() -> None:
    return None


@dataclass(frozen=True)
class Parts:
    """Built once per process by the composition in `headrace/`."""

    streams: Streams
    control: ControlWatch
    clock: Clock
    registry: CollectorRegistry
    workspace: Path
    address: str = ""
    """host:port of this process's HTTP endpoint; empty if it has none."""


Answer = Callable[[Mapping[str, str]], dict[str, Any]]
"""Called on the event loop with the words of a query; must not wait. A `HeadraceError` is an answer too."""


@dataclass(frozen=True)
class Service:
    """What `build(settings, parts)` of each service returns; `headrace run X` and the all-in-one run it alike."""

    group: str
    topics: Sequence[str]
    serve: Serve
    stateful: bool = False
    background: Sequence[Callable[[], Awaitable[None]]] = ()
    """Run beside the lanes, cancelled at the end; one that raises ends the process."""
    start: Callable[[], Awaitable[None]] = _nothing
    """Before the first lane: open pools, start workers."""
    close: Callable[[], Awaitable[None]] = _nothing
    """After the last lane, also when something failed."""
    status: Callable[[], dict[str, Any]] = field(default=dict)
    """For SIGUSR1 and /status: what it is doing now."""
    waits: Callable[[], str] = str
    """For /readyz: the dependency without which it stands still, and why; empty: it does not."""
    busy: Callable[[], int] = field(default=lambda: 0)
    """Requests or pages under way now: a stop waits for 0."""
    answers: Mapping[str, Answer] = field(default_factory=dict)
    """What others may ask it, by name: over the process's HTTP endpoint, or the socket of the all-in-one."""


def answers_of(services: Sequence[Service]) -> dict[str, Answer]:
    """All that the services of one process answer."""
    return {name: answer for service in services for name, answer in service.answers.items()}
