"""What an engine brings to run under the contract suite. Tests see this and `seams.py`, and nothing of an engine.

The embedded engine plugs in here, Kafka in `kafka_harness.py`: `kafka_engine(folder, url)`, an async context manager
that yields an `Engine` with topics of its own.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol
from urllib.parse import parse_qsl

from headrace_runtime.clock import Clock, SystemClock
from headrace_runtime.streams.seams import Streams

PARTITIONS = 4


class Engine(Protocol):
    """One storage, empty when the test begins."""

    @property
    def name(self) -> str: ...

    @property
    def exact(self) -> bool:
        """Also a stateless unit is atomic: after a crash nothing that was done comes again. False: at least once."""
        ...

    @property
    def instances(self) -> Sequence[str]:
        """Names under which processes can share the storage at the same time; one: it takes one process at a time."""
        ...

    @property
    def session(self) -> float:
        """Seconds after which a silent process has lost its partitions; where nobody takes them, any short time."""
        ...

    @property
    def kills(self) -> int:
        """SIGKILLs worth dealing out in one test."""
        ...

    @property
    def steps(self) -> Sequence[str]:
        """The steps of its commit in order, as `module:Class.method`: a process is killed before and after each."""
        ...

    def spec(self, instance: str = "a") -> str:
        """What a process of its own opens the same storage with: see `open_from_spec`."""
        ...

    def opened(self) -> AbstractAsyncContextManager[Streams]:
        """The storage, closed at the end. Everything retained: records stay for an hour after they were read."""
        ...

    def beside(self, streams: Streams) -> AbstractAsyncContextManager[Streams]:
        """What a second member of a group joins through, while `streams` is open."""
        ...


async def open_from_spec(spec: str, clock: Clock | None = None) -> Streams:
    """`embedded:<path>?partitions=4&keep=3600&sync=group`, or
    `kafka:<bootstrap>?prefix=x&partitions=4&state=<folder>&instance=a&session=6`."""
    kind, _, rest = spec.partition(":")
    where, _, query = rest.partition("?")
    options = dict(parse_qsl(query, strict_parsing=True))
    clock = clock or SystemClock()
    if kind == "embedded":
        from headrace_runtime.streams.embedded.engine import EmbeddedStreams

        return await EmbeddedStreams.open(
            Path(where),
            partitions=int(options["partitions"]),
            sync=options.get("sync", "group"),
            keep=float(options.get("keep", 0)),
            clock=clock,
        )
    if kind == "kafka":
        from headrace_runtime.streams.kafka.engine import KafkaStreams

        return await KafkaStreams.open(
            bootstrap=where.split(","),
            prefix=options.get("prefix", ""),
            partitions=int(options["partitions"]),
            state=Path(options["state"]),
            instance=options.get("instance", ""),
            session_timeout=float(options["session"]),
            clock=clock,
        )
    raise ValueError(spec)


_COMMIT = "headrace_runtime.streams.embedded.commit:Committer."


class EmbeddedEngine:
    name = "embedded"
    exact = True
    instances: Sequence[str] = ("a",)
    session = 0.5
    kills = 32
    steps: Sequence[str] = (
        _COMMIT + "_stage_state",
        _COMMIT + "_stage_records",
        _COMMIT + "_stage_offsets",
        _COMMIT + "_stage_deletions",
        _COMMIT + "_write",
        _COMMIT + "_adopt",
        _COMMIT + "_announce",
    )

    def __init__(self, folder: Path, *, keep: float = 3_600.0) -> None:
        self._path, self._keep = folder / "log", keep

    def spec(self, instance: str = "a") -> str:
        return f"embedded:{self._path}?partitions={PARTITIONS}&keep={self._keep}"

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Streams]:
        streams = await open_from_spec(self.spec())
        try:
            yield streams
        finally:
            await streams.close()

    @asynccontextmanager
    async def beside(self, streams: Streams) -> AsyncIterator[Streams]:
        """Members of one process share the database."""
        yield streams
