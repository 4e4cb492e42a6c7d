"""Topics of kind `table`: the latest value per key, in memory and in the database."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from headrace_runtime.streams.embedded.database import Database, rows_with
from headrace_runtime.streams.embedded.layout import table_prefix

Changed = Callable[[bytes, bytes], None]


class Tables:
    """All tables of a process. `changed` is called by the commit that wrote the row, after the write."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rows: dict[str, dict[bytes, bytes]] = {}
        self._open: dict[str, list[EmbeddedTable]] = {}

    def open(self, topic: str) -> "EmbeddedTable":
        if topic not in self._rows:
            prefix = table_prefix(topic)
            self._rows[topic] = {key[len(prefix) :]: value for key, value in rows_with(self._database, prefix)}
        table = EmbeddedTable(self._rows[topic], lambda: self._closed(topic, table))
        self._open.setdefault(topic, []).append(table)
        return table

    def changed(self, topic: str, key: bytes, value: bytes) -> None:
        rows = self._rows.get(topic)
        if rows is None:
            return
        rows[key] = value
        for table in tuple(self._open.get(topic, ())):
            table.changed(key, value)

    def _closed(self, topic: str, table: "EmbeddedTable") -> None:
        if table in self._open[topic]:
            self._open[topic].remove(table)


class EmbeddedTable:
    def __init__(self, rows: dict[bytes, bytes], closed: Callable[[], None]) -> None:
        self._rows, self._closed = rows, closed
        self._watchers: list[Changed] = []

    @property
    def rows(self) -> Mapping[bytes, bytes]:
        return MappingProxyType(self._rows)

    def watch(self, changed: Changed) -> None:
        self._watchers.append(changed)
        for key, value in tuple(self._rows.items()):
            changed(key, value)

    def changed(self, key: bytes, value: bytes) -> None:
        for watcher in self._watchers:
            watcher(key, value)

    async def refresh(self) -> None:
        """Nothing to wait for: a row is here as soon as it is written."""

    async def close(self) -> None:
        self._watchers.clear()
        self._closed()
