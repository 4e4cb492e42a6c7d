"""State in memory: what a handler's unit tests run on. It passes the same tests as the engines' own views."""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence

from headrace_runtime.streams.seams import Unit


class MemoryState:
    """A `StateView` over a dict. Like an engine's view it shows only what was committed: call `apply`."""

    def __init__(self, entries: Mapping[bytes, bytes] | None = None) -> None:
        self._entries: dict[bytes, bytes] = dict(entries or {})
        self._order: list[bytes] = sorted(self._entries)

    def __len__(self) -> int:
        return len(self._order)

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._entries.get(key) for key in keys]

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """A snapshot of the moment of the call, as with the engines: applying a unit does not disturb it."""
        keys = self._order[bisect_left(self._order, start) : bisect_left(self._order, stop)]
        return iter([(key, self._entries[key]) for key in keys])

    def apply(self, unit: Unit) -> None:
        """Commits the state of `unit`; its sends and offsets are the caller's to look at."""
        for key, value in unit.writes.items():
            if value is None:
                self._delete(key)
            else:
                self._put(key, value)

    def _put(self, key: bytes, value: bytes) -> None:
        if key not in self._entries:
            insort(self._order, key)
        self._entries[key] = value

    def _delete(self, key: bytes) -> None:
        if self._entries.pop(key, None) is not None:
            del self._order[bisect_left(self._order, key)]
