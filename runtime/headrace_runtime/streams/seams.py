"""The seam between services and engines. A service sees records, a unit of work and a lane; never an engine.

Streams ── join(group, …) ──► Membership        one lane at a time per owned partition
   │                             │
   │                             └─ serve(lane): poll → handle → commit(unit), until lane.stopping
   ├── publish(sends)            acknowledged when it returns
   ├── table(topic)              latest value per key
   └── edges(…)                  how far each group has read: what completion is proved with
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from headrace_runtime.clock import Deadline


class Record(Struct, frozen=True, gc=False):
    topic: str
    """Without the prefix of `streams.prefix`."""
    partition: int
    offset: int
    key: bytes
    value: bytes
    timestamp: float
    """Seconds since the epoch at which it was appended."""


class Send(Struct, frozen=True, gc=False):
    topic: str
    partition: int
    value: bytes
    key: bytes = b""


class Edge(NamedTuple):
    """How far `group` has read one partition of `topic`. Lag is `end - committed`; complete is when they are equal."""

    topic: str
    group: str
    partition: int
    committed: int
    end: int


class StateView(Protocol):
    """The COMMITTED state of one partition."""

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]: ...

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Entries with start <= key < stop in key order. Start at a remembered head: scanning passes tombstones."""
        ...


class Unit:
    """One unit of work: state, outputs and offsets that become true together.

    On a stateful lane all of it is atomic. On a stateless one: `sends` are acknowledged, then `later` are sent and
    acknowledged, then `done` counts as read. Single use: built for one commit.
    """

    __slots__ = ("_base", "done", "later", "sends", "writes")

    def __init__(self, base: StateView | None = None) -> None:
        self._base = base
        self.writes: dict[bytes, bytes | None] = {}
        self.sends: list[Send] = []
        self.later: list[Send] = []
        self.done: list[Record] = []

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Sees what this unit has staged, unlike `StateView.scan`: what is found now is scanned one unit later."""
        writes = self.writes
        if not writes:
            return self._view.get(keys)
        missing = [key for key in keys if key not in writes]
        if not missing:
            return [writes[key] for key in keys]
        found = dict(zip(missing, self._view.get(missing), strict=True))
        return [writes[key] if key in writes else found[key] for key in keys]

    @property
    def _view(self) -> StateView:
        if self._base is None:
            raise TypeError("this lane keeps no state")
        return self._base

    def put(self, key: bytes, value: bytes) -> None:
        self.writes[key] = value

    def delete(self, key: bytes) -> None:
        self.writes[key] = None

    def send(self, send: Send) -> None:
        self.sends.append(send)

    def send_later(self, send: Send) -> None:
        """Sent only once everything in `sends` is acknowledged: the result after its page."""
        self.later.append(send)

    @property
    def empty(self) -> bool:
        return not (self.writes or self.sends or self.later or self.done)


class Lane(Protocol):
    """One owned partition of one group, all its input topics. Dies on revoke, or when a commit is in doubt."""

    @property
    def group(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def state(self) -> StateView:
        """Only where the group joined with `stateful`."""
        ...

    @property
    def linger(self) -> float:
        """Seconds worth gathering work for between two commits: a transaction is dear on Kafka, cheap embedded."""
        ...

    @property
    def stopping(self) -> Deadline | None:
        """None while the lane lives; then the deadline by which `serve` must have drained and returned."""
        ...

    async def poll(self, limit: int, timeout: float) -> list[Record]:
        """Up to `limit` records, in offset order per topic, each once per lane. Empty after `timeout` seconds, or at
        once when the lane is stopping. Never cancel it."""
        ...

    async def commit(self, unit: Unit) -> None:
        """Makes `unit` true. `LaneLost` if that is in doubt: return from `serve` with it. Not to be called twice at
        once."""
        ...

    def owned(self) -> bool:
        """False when this process may have lost the partition without knowing (it slept, or the group does not
        answer): ask before every act that the outside world sees."""
        ...


Serve = Callable[[Lane], Awaitable[None]]
"""Runs one lane until `lane.stopping`, then drains and returns. Called anew, with a new lane, after `LaneLost` and
after each assignment: whatever it caches dies with it. Any other exception ends the process."""


class Stalled(NamedTuple):
    """What a group stands still for, and since when."""

    why: str
    seconds: float


class Membership(Protocol):
    """This process's part in one group."""

    @property
    def lanes(self) -> Sequence[Lane]: ...

    @property
    def stalled(self) -> Stalled | None:
        """None while the engine is well."""
        ...

    async def run(self) -> None:
        """Until stopped; raises what a lane or the engine raised."""
        ...

    async def stop(self, deadline: Deadline) -> None:
        """No more intake, drain, commit, leave."""
        ...


class Table(Protocol):
    """Latest value per key of a compacted topic, kept fresh until closed."""

    @property
    def rows(self) -> Mapping[bytes, bytes]: ...

    def watch(self, changed: Callable[[bytes, bytes], None]) -> None:
        """Calls `changed(key, value)` for every row there is, and for each that comes."""
        ...

    async def refresh(self) -> None:
        """Returns once everything that was in the topic at the time of the call is in `rows`."""
        ...

    async def close(self) -> None: ...


class Streams(Protocol):
    @property
    def partitions(self) -> int: ...

    async def join(
        self, group: str, topics: Sequence[str], serve: Serve, *, stateful: bool = False, since: float | None = None
    ) -> Membership:
        """`since`: where a group that has never committed starts (default: the oldest record)."""
        ...

    async def publish(self, sends: Iterable[Send]) -> None:
        """Acknowledged, durable as by `streams.sync`, when it returns."""
        ...

    async def edges(self, edges: Iterable[tuple[str, str]]) -> list[Edge]:
        """For (topic, group) pairs; ends include what is not yet committed: an open transaction is work."""
        ...

    async def begins(self, topic: str) -> list[int]:
        """The first offset that is still there, by partition: what was before has been deleted."""
        ...

    async def table(self, topic: str) -> Table:
        """Caught up when it returns. Rows not yet committed are seen."""
        ...

    async def close(self) -> None: ...


@runtime_checkable
class Trimmable(Protocol):
    """Streams that keep what was read until they are told. The embedded log deletes by itself, commit by commit."""

    async def trim(self, keep: Mapping[str, float], allowed: Callable[[], bool]) -> dict[str, int]:
        """Deletes of each topic what all its readers have committed and is older than `keep` seconds. → offsets
        deleted. Ends early, between two topics, once it is not `allowed`. Any number of processes may do it at once."""
        ...


@runtime_checkable
class Peekable(Protocol):
    """Streams whose state can be looked at without a lane. On Kafka a state is with its owner: ask that."""

    def peek(self, group: str, partition: int) -> StateView: ...
