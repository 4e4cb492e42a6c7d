"""The history of requests, read: of one URL, or of every host in the order it was asked."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Engine, inspect, select, tuple_

from headrace_storer.database import translated
from headrace_storer.schema import FETCHES
from headrace_storer.views import Asked, Fetch

_CHUNK = 2_000  # rows read at once: the memory a proof takes, and the longest a snapshot of it lives

_f = FETCHES.c


class History:
    """Blocking. An index of a release that kept no history, which only a storer may change, has an empty one."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def of(self, key: bytes, limit: int) -> list[Fetch]:
        columns = [_f[name] for name in Fetch._fields]
        query = select(*columns).where(_f.key == key).order_by(_f.fetch_id.desc(), _f.at.desc()).limit(limit)
        with translated():
            if not self._kept():
                return []
            with self._engine.connect() as connection:
                rows = connection.execute(query).all()
        return [Fetch._make(row) for row in reversed(rows)]

    def by_host(self, host: str | None, since: float) -> Iterator[Asked]:
        query = select(_f.host, _f.at, _f.delay, _f.kind, _f.url, _f.id).order_by(_f.host, _f.at, _f.id).limit(_CHUNK)
        if host is not None:
            query = query.where(_f.host == host)
        if since:
            query = query.where(_f.at >= since)
        with translated():
            if not self._kept():
                return
        last: tuple[Any, ...] | None = None
        while True:
            page = query if last is None else query.where(tuple_(_f.host, _f.at, _f.id) > last)
            with translated(), self._engine.connect() as connection:
                rows = connection.execute(page).all()
            for row in rows:
                yield Asked._make(row[:5])
            if len(rows) < _CHUNK:
                return
            last = (rows[-1].host, rows[-1].at, rows[-1].id)

    def _kept(self) -> bool:
        return inspect(self._engine).has_table(FETCHES.name)
