"""The border to the database: an address → a SQLAlchemy engine, and its errors → ours."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, SQLAlchemyError, StatementError

from headrace_runtime.config_text import masked
from headrace_schemas.errors import HeadraceError, Poison, Unavailable, UsageError
from headrace_storer.leash import Leash

BUSY = 1.0
"""Seconds SQLite waits for another writer before the sink's own waiting takes over: a stop must not wait longer."""

_PATIENCE = {
    # A peer that vanished without a word must not hold the storer for the two hours of TCP's own patience.
    "connect_timeout": 5,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "tcp_user_timeout": 15_000,
    "fallback_application_name": "headrace",
}

_DENIED = re.compile(
    r"authentication failed|no password supplied|(?:role|database) \".*\" does not exist|no pg_hba\.conf entry"
    r"|not permitted to log in|permission denied for (?:database|schema)|no such (?:user|database)"
    r"|invalid (?:connection option|\w+ value|port number|URI)",
    re.IGNORECASE,
)
"""While it connects, libpq tells no SQLSTATE. Words of another language are waited for: slower, and no harm."""


class Denied(Unavailable):
    """The server answers, and says no to who or what was named: an error at the start, afterwards waited for."""


def address_of(url: str, workspace: Path) -> URL:
    """`index.url` as SQLAlchemy knows it. A relative SQLite path is relative to the workspace, not to wherever the
    command was called."""
    if not url:
        return URL.create("sqlite", database=str(workspace / "index.sqlite"))
    try:
        address = make_url(url)
    except ArgumentError:
        raise _wrong(url) from None
    if address.drivername == "sqlite" and address.database and address.database != ":memory:":
        path = Path(address.database)
        if not path.is_absolute():
            path = workspace / path
        return URL.create("sqlite", database=str(path))
    if "@" in (address.host or ""):
        raise UsageError("index.url: an @ in a user name or password is written %40 (: %3A, / %2F, % %25)")
    if address.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return address.set(drivername="postgresql+psycopg")
    raise _wrong(url)


def _wrong(url: str) -> UsageError:
    scheme = url.partition(":")[0]
    return UsageError(f"index.url begins with {scheme!r}; allowed: sqlite:///PATH or postgresql://USER@HOST/DATABASE")


def shown(address: URL) -> str:
    """For people: without its passwords, wherever in it they are."""
    return masked(address.set(drivername=address.get_backend_name()).render_as_string())


def connect(address: URL, *, durable: bool, leash: Leash | None = None) -> Engine:
    """Nothing is opened yet. `durable`: a commit is on the disk when it returns (of SQLite; a server has settings of
    its own). What the URL says of the connection is stronger than what we would."""
    if address.get_backend_name() == "sqlite":
        engine = create_engine(address, connect_args={"timeout": BUSY})
        event.listen(engine, "connect", _sqlite_setup(durable))
        return engine
    patience = {name: value for name, value in _PATIENCE.items() if name not in address.query}
    engine = create_engine(address, connect_args=patience, pool_size=2, max_overflow=2)
    if leash is not None:
        leash.hold(engine)
    return engine


def _sqlite_setup(durable: bool) -> Any:
    def setup(connection: Any, _record: Any) -> None:
        cursor = connection.cursor()
        # NORMAL is consistent but may lose the last commits in a power cut, after their offsets have passed.
        cursor.execute(f"PRAGMA synchronous={'FULL' if durable else 'NORMAL'}")
        cursor.execute("PRAGMA cache_size=-32768")  # KiB: the keys are hit at random; twice as much saves 1 % of a page
        cursor.execute("PRAGMA wal_autocheckpoint=4000")  # pages (16 MB): a leaf that many commits touch is moved once
        cursor.close()

    return setup


@contextmanager
def translated() -> Iterator[None]:
    """`Poison` if the database refuses these data, `Unavailable` for all that may pass or that an operator can mend.

    When in doubt it is the second: waiting loses nothing, dead-lettering a whole crawl for want of a permission does.
    """
    try:
        yield
    except HeadraceError:
        raise
    except (DataError, IntegrityError) as error:
        raise Poison(_line(error)) from error
    except DBAPIError as error:
        raise _kind(error)(_line(error)) from error
    except StatementError as error:  # a value the driver cannot bind
        raise Poison(_line(error)) from error
    except SQLAlchemyError as error:
        raise Unavailable(_line(error)) from error
    except (OverflowError, UnicodeError) as error:  # sqlite3's own, passed through as they are
        raise Poison(f"{type(error).__name__}: {error}") from error


def _kind(error: DBAPIError) -> type[HeadraceError]:
    state = getattr(error.orig, "sqlstate", None) or ""
    if state.startswith("54"):  # past a limit of the server: a host name too long for its index, say
        return Poison
    if state.startswith("28") or state in ("3D000", "42501") or _DENIED.search(str(error.orig)):
        return Denied
    return Unavailable


def _line(error: SQLAlchemyError) -> str:
    """The driver's own words, in one line: SQLAlchemy's repeat the statement and all its parameters."""
    cause = getattr(error, "orig", None) or error
    return " ".join(str(cause).split())[:500]
