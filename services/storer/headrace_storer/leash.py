"""A hold on the connections of an index from another thread: a server that stands still without closing anything would
keep the storer's thread for ever. Keepalives do not tell: the kernel of a stopped server goes on answering them."""

import os
import socket
import weakref
from contextlib import suppress
from typing import Any

import psycopg
from sqlalchemy import Engine, event


class Leash:
    def __init__(self) -> None:
        self._held: weakref.WeakSet[psycopg.Connection[Any]] = weakref.WeakSet()

    def hold(self, engine: Engine) -> None:
        """All connections that it makes. SQLite has none: what it waits for ends by itself."""

        def made(connection: Any, _record: Any) -> None:
            if isinstance(connection, psycopg.Connection):
                self._held.add(connection)

        event.listen(engine, "connect", made)

    def cut(self) -> None:
        """Whoever waits for an answer on one of them has an error at once. Any thread."""
        for connection in list(self._held):
            with suppress(psycopg.Error, OSError):  # closed meanwhile
                with socket.socket(fileno=os.dup(connection.pgconn.socket)) as same:
                    same.shutdown(socket.SHUT_RDWR)
