"""The committed state of one group in one partition."""

from collections.abc import Iterator, Sequence
from typing import Any

from rocksdict import ReadOptions

from headrace_runtime.streams.embedded.database import Database
from headrace_runtime.streams.embedded.layout import state_prefix


class EmbeddedState:
    def __init__(self, database: Database, group: str, partition: int) -> None:
        self.prefix = state_prefix(group, partition)
        self._database = database

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        if not keys:
            return []
        prefix = self.prefix
        found: Any = self._database.state.get([prefix + key for key in keys])
        return list(found)

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        if start >= stop:
            return
        bound = ReadOptions()
        bound.set_iterate_upper_bound(self.prefix + stop)  # else an empty range walks the tombstones behind it
        skip = len(self.prefix)
        items: Any = self._database.state.items(from_key=self.prefix + start, read_opt=bound)
        for key, value in items:
            yield key[skip:], value
