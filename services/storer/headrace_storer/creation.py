"""The tables of an index: whether they are there, are ours, and are of a format that this release knows."""

from sqlalchemy import Connection, Engine, insert, inspect, select, text
from sqlalchemy.schema import CreateColumn

from headrace_schemas.errors import FatalError, TooNew
from headrace_storer.database import shown
from headrace_storer.schema import ADDED, FORMAT, HEAD, SCHEMA

_LOCK = 0x48_65_61_64  # PostgreSQL advisory lock: storers that start together create the tables once


def ready(engine: Engine, *, create: bool) -> bool:
    """Whether there is an index of our format. `create`: make what is missing of it, all in one transaction or
    nothing: a new index, or the tables and columns that a newer release has added."""
    with engine.connect() as connection:
        missing = _missing(connection)
        if create and engine.dialect.name == "sqlite":
            # Readers then never block the storer. Kept in the file, so only once it is known to be ours or empty.
            connection.exec_driver_sql("PRAGMA journal_mode=WAL")
    if not create:
        return HEAD.name not in missing
    if missing:
        with engine.begin() as connection:
            _create(connection)
    return True


def whole(engine: Engine) -> bool:
    """Whether nothing is missing of what this release would write and read."""
    with engine.connect() as connection:
        return not _missing(connection)


def _create(connection: Connection) -> None:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    missing = _missing(connection)  # again: another storer may have been quicker
    SCHEMA.create_all(connection)
    for column in ADDED:
        if str(column) in missing:
            kind = CreateColumn(column).compile(dialect=connection.dialect)
            connection.execute(text(f"ALTER TABLE {column.table.name} ADD COLUMN {kind}"))
    if HEAD.name in missing:
        connection.execute(insert(HEAD), [{"name": "format", "value": FORMAT}])


def _missing(connection: Connection) -> set[str]:
    """Our tables and columns (`table.column`) that are not there; `FatalError` or `TooNew` where it is not ours
    to use."""
    tables = set(inspect(connection).get_table_names())
    where = shown(connection.engine.url)
    missing = set(SCHEMA.tables) - tables
    if HEAD.name in missing:
        if (connection.dialect.name == "sqlite" and tables) or tables & set(SCHEMA.tables):
            raise FatalError(f"{where} holds tables of something else, not a headrace index")
        return missing
    found = connection.execute(select(HEAD.c.value).where(HEAD.c.name == "format")).scalar()
    if found is None:
        raise FatalError(f"{where} names no format: not a headrace index, or a damaged one")
    if found > FORMAT:
        raise TooNew(f"{where} has format {found}; this release reads up to {FORMAT}: upgrade it")
    for column in ADDED:
        table = column.table.name
        if table not in tables:
            continue
        with connection.execute(text(f"SELECT * FROM {table} LIMIT 0")) as none:  # a tenth of what an inspector asks
            if column.name not in set(none.keys()):
                missing.add(str(column))
    return missing
