"""The tables of the index and the statements that write them, alike on SQLite and PostgreSQL."""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from msgspec import Struct
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    and_,
    case,
    literal_column,
    or_,
)
from sqlalchemy.dialects import postgresql, sqlite

FORMAT = 1
"""Format of these tables; written at creation, asserted at every opening. A table that is added leaves it as it is, and
so does a column that may be null: an older release neither reads nor misses it, and a newer one creates it in an index
that has none."""

SCHEMA = MetaData()

HEAD = Table(
    "headrace_index",
    SCHEMA,
    Column("name", Text, primary_key=True),
    Column("value", Integer, nullable=False),
)


def _column(name: str, kind: Any) -> Column[Any]:
    return Column(name, kind, nullable=False)


# A rowid-like number beside the key: rows are appended in order of arrival (a 16-byte hash as the table's own order
# would touch a random leaf for each of them), and readers page through by it without holding a snapshot open.
PAGES = Table(
    "pages",
    SCHEMA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("key", LargeBinary, nullable=False, unique=True),
    _column("version", BigInteger),
    _column("at", Double),
    _column("kind", Text),
    _column("url", Text),
    _column("status", Integer),
    _column("page_type", Text),
    _column("depth", Integer),
    _column("referrer", Text),
    _column("latency_ms", BigInteger),
    _column("attempt", Integer),
    _column("proxy_id", Text),
    _column("run", BigInteger),
    _column("note", Text),
    _column("body_version", BigInteger),
    _column("body_at", Double),
    _column("body_url", Text),
    _column("sha256", Text),
    _column("size", BigInteger),
    _column("content_type", Text),
    _column("charset", Text),
    _column("validator_version", BigInteger),
    _column("validator_at", Double),
    _column("etag", Text),
    _column("last_modified", Text),
    _column("answer_headers", Text),
    _column("headers", Text),
)

PARSED = Table(
    "parsed",
    SCHEMA,
    Column("key", LargeBinary, primary_key=True),
    _column("version", BigInteger),
    _column("at", Double),
    _column("verdict", Text),
    _column("title", Text),
    _column("description", Text),
    _column("lang", Text),
    _column("encoding", Text),
    _column("canonical_url", Text),
    _column("text_sha256", Text),
    _column("noindex", Boolean),
    _column("nofollow", Boolean),
    _column("outlink_count", Integer),
    _column("text", Text),
    _column("outlinks", LargeBinary),
    _column("items", LargeBinary),
    Column("packed_text", LargeBinary),
)

ADDED = (PARSED.c.packed_text,)
"""Columns that an index of an older release lacks until one of this release writes to it."""

# Append-only. The constraint tells a message read twice from a task fetched twice, and finds the history of a URL.
FETCHES = Table(
    "fetches",
    SCHEMA,
    Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    _column("key", LargeBinary),
    _column("fetch_id", BigInteger),
    _column("at", Double),
    _column("host", Text().with_variant(Text(collation="C"), "postgresql")),  # the order of SQLite, in any locale
    _column("delay", Double),
    _column("kind", Text),
    _column("url", Text),
    _column("attempt", Integer),
    _column("status", Integer),
    _column("outcome", Text),
    _column("latency_ms", BigInteger),
    _column("connect_ms", BigInteger),
    _column("first_byte_ms", BigInteger),
    _column("body_ms", BigInteger),
    _column("received", BigInteger),
    _column("protocol", Text),
    _column("proxy_id", Text),
    UniqueConstraint("key", "fetch_id", "at"),
    Index("fetches_host_at", "host", "at"),
)

_BODY = ("body_version", "body_at", "body_url", "sha256", "size", "content_type", "charset", "headers")
_VALIDATORS = ("validator_version", "validator_at", "etag", "last_modified")
_ANSWER = tuple(
    column.name for column in PAGES.columns if column.name not in ("id", "key", *_BODY, *_VALIDATORS)
)  # begins with version, at

_Insert = sqlite.Insert | postgresql.Insert


class Upsert:
    """A statement compiled once, given to the driver with the values as they are: SQLAlchemy's own handling of 28
    parameters a row costs twice what SQLite takes to store them."""

    def __init__(self, statement: _Insert, table: Table, dialect: Dialect) -> None:
        names = [column.name for column in table.columns if column.name != "id"]
        compiled = statement.inline().compile(dialect=dialect, column_keys=names)
        self._sql = str(compiled)
        positions = getattr(compiled, "positiontup", None)
        self._values: Callable[[Any], Any] = attrgetter(*positions) if positions else msgspec.structs.asdict

    def run(self, connection: Connection, changes: Sequence[Struct]) -> None:
        connection.exec_driver_sql(self._sql, [self._values(change) for change in changes])


def upsert_pages(dialect: Dialect) -> Upsert:
    """Each group of columns moves only forward; what is not newer in any of them touches nothing."""
    statement = _insert(dialect, PAGES)
    new, old = statement.excluded, PAGES.columns
    changes: dict[str, ColumnElement[Any]] = {}
    newer_in_any: list[ColumnElement[bool]] = []
    for group in (_ANSWER, _BODY, _VALIDATORS):
        newer = and_(new[group[0]] >= literal_column("0"), _not_older(new, old, group[0], group[1]))
        newer_in_any.append(newer)
        changes.update({name: case((newer, new[name]), else_=old[name]) for name in group})
    statement = statement.on_conflict_do_update(index_elements=["key"], set_=changes, where=or_(*newer_in_any))
    return Upsert(statement, PAGES, dialect)


def upsert_parsed(dialect: Dialect) -> Upsert:
    statement = _insert(dialect, PARSED)
    new, old = statement.excluded, PARSED.columns
    changes = {column.name: new[column.name] for column in PARSED.columns if column.name != "key"}
    newer = _not_older(new, old, "version", "at")
    statement = statement.on_conflict_do_update(index_elements=["key"], set_=changes, where=newer)
    return Upsert(statement, PARSED, dialect)


def add_fetches(dialect: Dialect) -> Upsert:
    return Upsert(_insert(dialect, FETCHES).on_conflict_do_nothing(), FETCHES, dialect)


def _not_older(new: Any, old: Any, version: str, at: str) -> ColumnElement[bool]:
    """By version, then by time: one release may be answered twice, and the answers may come in either order."""
    return or_(new[version] > old[version], and_(new[version] == old[version], new[at] >= old[at]))


def _insert(dialect: Dialect, table: Table) -> _Insert:
    return sqlite.insert(table) if dialect.name == "sqlite" else postgresql.insert(table)
