"""The index: a row per URL answered or finally failed, and the history of requests; SQLite or PostgreSQL.

Written by the sink, read by the CLI.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import URL, Engine, Row, Select, func, null, or_, select

from headrace_schemas.errors import FatalError, Unavailable, UsageError
from headrace_schemas.settings import Settings
from headrace_storer import views
from headrace_storer.changes import Change, FetchChange, PageChange, ParsedChange
from headrace_storer.creation import ready, whole
from headrace_storer.database import Denied, address_of, connect, shown, translated
from headrace_storer.handler import unpack_links
from headrace_storer.history import History
from headrace_storer.leash import Leash
from headrace_storer.schema import PAGES, PARSED, Upsert, add_fetches, upsert_pages, upsert_parsed
from headrace_storer.store import path_of
from headrace_storer.views import Asked, Fetch, KnownPage, PageDetail, PageRow, StoredPage

_key = attrgetter("key")
_CHUNK = 500  # rows read at once: no snapshot outlives a chunk, so a long export does not hold back the writer's log

_LET_GO = "SET LOCAL idle_in_transaction_session_timeout = '60s'"
"""A storer whose machine is lost in the middle of a transaction would keep its rows locked for the hours of TCP, and
whoever reads its partitions now would wait for them."""

_HAS_BODY = PAGES.c.sha256 != ""
"""A page that was only followed has the facts of its body, and no hash."""


def open_index(settings: Settings, workspace: Path, *, create: bool, leash: Leash | None = None) -> "Index":
    """`create`: make the tables if there are none (the storer); otherwise their absence is a `UsageError` (readers).
    So is a server that knows neither this user nor this database; one that does not answer is `Unavailable`."""
    address = address_of(settings.index.url, workspace)
    durable = settings.streams.sync != "none"
    if address.get_backend_name() == "sqlite":
        path = Path(address.database or "")
        if not create and not path.exists():
            raise _no_pages(settings, address)
        if path.parent == workspace and create:
            workspace.mkdir(parents=True, exist_ok=True)
        if not path.parent.is_dir():
            raise UsageError(f"index.url: there is no folder {path.parent}")
    engine = connect(address, durable=durable, leash=leash)
    try:
        with translated():
            if not ready(engine, create=create):
                raise _no_pages(settings, address)
    except Unavailable as error:
        engine.dispose()
        if "not a database" in str(error):
            raise FatalError(f"{address.database} is not a headrace index, nor any other SQLite file") from None
        if isinstance(error, Denied):
            raise UsageError(f"index.url {shown(address)}: {error}") from None
        raise Unavailable(f"index {shown(address)}: {error}") from None
    except BaseException:
        engine.dispose()
        raise
    return Index(engine, whole=create)


def _no_pages(settings: Settings, address: URL) -> UsageError:
    local = address.get_backend_name() == "sqlite"
    where = str(Path(address.database or "").parent if local else shown(address))
    if not settings.kafka:
        return UsageError(f"no pages yet in {where}: run headrace crawl first")
    return UsageError(
        f"no pages yet in {where}: a fleet's index is made by its first storer (`headrace run storer`), "
        "and this command must be told the same index.url as the storers"
    )


class Index:
    """Blocking: call it off the event loop. Any thread; each call takes a connection of its own.

    `whole`: nothing is missing of what this release has added to the tables. A reader of an older index does without,
    and completes it when it writes to it: a replay."""

    def __init__(self, engine: Engine, *, whole: bool) -> None:
        self._engine = engine
        self._whole = whole
        self._writes: dict[type[Change], Upsert] = {
            PageChange: upsert_pages(engine.dialect),
            ParsedChange: upsert_parsed(engine.dialect),
            FetchChange: add_fetches(engine.dialect),
        }
        self._history = History(engine)

    def save(self, changes: Sequence[Change]) -> None:
        """All of them in one transaction, committed when it returns. In any order, any number of times: the same rows.

        `Poison`: the database refuses one of them, none is saved. `Unavailable`: none is known to be saved; try again.
        """
        kinds: dict[type[Change], list[Change]] = {PageChange: [], ParsedChange: [], FetchChange: []}
        for change in changes:
            kinds[type(change)].append(change)
        try:
            with translated():
                self._whole = self._whole or ready(self._engine, create=True)
            with translated(), self._engine.begin() as connection:
                if self._engine.dialect.name != "sqlite":
                    connection.exec_driver_sql(_LET_GO)
                for kind, some in kinds.items():
                    if some:
                        # By key: two storers that meet over a partition then lock rows in one order, without deadlock.
                        some.sort(key=_key)
                        self._writes[kind].run(connection, some)
        except Unavailable:
            self._engine.dispose()  # the next try starts with a new connection
            raise

    def rows(
        self, *, host: str | None = None, status: int | None = None, limit: int | None = None
    ) -> Iterator[PageRow]:
        """In order of first arrival; `host` is a host name without port."""
        query = _rows()
        if host is not None:
            query = query.where(_on_host(host))
        if status is not None:
            query = query.where(PAGES.c.status == status)
        return (_page_row(row) for row in self._chunks(query, limit))

    def get(self, key: bytes) -> PageDetail | None:
        with translated():
            self._whole = self._whole or whole(self._engine)
        query = _rows().add_columns(
            PAGES.c.run,
            PAGES.c.answer_headers,
            PAGES.c.headers,
            PARSED.c.text,
            PARSED.c.text_sha256,
            PARSED.c.outlinks,
            PARSED.c["items"],
            PARSED.c.packed_text if self._whole else null().label("packed_text"),
        )
        with translated(), self._engine.connect() as connection:
            row = connection.execute(query.where(PAGES.c.key == key)).one_or_none()
        return None if row is None else _page_detail(row)

    def count(self) -> dict[str, int]:
        """Rows by class of HTTP status: "2xx", "3xx", … and "none" where there was no answer."""
        with translated(), self._engine.connect() as connection:
            statuses = connection.execute(select(PAGES.c.status, func.count()).group_by(PAGES.c.status)).all()
        counts: dict[str, int] = {}
        for status, number in sorted(statuses):
            name = f"{status // 100}xx" if status else "none"
            counts[name] = counts.get(name, 0) + number
        return counts

    def stored(self, *, host: str | None = None) -> Iterator[StoredPage]:
        """Every page with a body, for a replay from the store."""
        query = select(PAGES).where(_HAS_BODY)
        if host is not None:
            query = query.where(_on_host(host))
        return (_stored_page(row) for row in self._chunks(query))

    def failed(self) -> Iterator[KnownPage]:
        """URLs whose last request came to nothing: what `--retry-failed` asks for again."""
        query = _known().where(PAGES.c.kind == "failed")
        return (KnownPage._make(row[1:]) for row in self._chunks(query))

    def known_bodies(self) -> Iterator[KnownPage]:
        """URLs with a body, with their validators: what `--refresh` asks for again."""
        query = _known().where(_HAS_BODY)
        return (KnownPage._make(row[1:]) for row in self._chunks(query))

    def fetches(self, key: bytes, *, limit: int = 100) -> list[Fetch]:
        """The requests made for one URL, oldest first; of many, the last `limit`."""
        return self._history.of(key, limit)

    def hosts_asked(self, *, host: str | None = None, since: float = 0.0) -> Iterator[Asked]:
        """Every request made since then (seconds since the epoch), host by host, each in order of time."""
        return self._history.by_host(host, since)

    def close(self) -> None:
        self._engine.dispose()

    def _chunks(self, query: Select[Any], limit: int | None = None) -> Iterator[Row[Any]]:
        last, left = 0, limit
        while left is None or left > 0:
            size = _CHUNK if left is None else min(_CHUNK, left)
            page = query.where(PAGES.c.id > last).order_by(PAGES.c.id).limit(size)
            with translated(), self._engine.connect() as connection:
                rows = connection.execute(page).all()
            yield from rows
            if len(rows) < size:
                return
            last = rows[-1].id
            left = None if left is None else left - size


def _on_host(host: str) -> Any:
    """By the text of the URL: it is normalised, and a column of its own would cost every row for a rare question."""
    starts = (f"{scheme}://{host}{end}" for scheme in ("http", "https") for end in "/:")
    return or_(*(PAGES.c.url.startswith(start, autoescape=True) for start in starts))


def _rows() -> Select[Any]:
    p, q = PAGES.c, PARSED.c
    return select(
        *(p.id, p.key, p.version, p.kind, p.at, p.url, p.page_type, p.depth, p.referrer, p.status, p.note),
        *(p.body_version, p.content_type, p.charset, p.sha256, p.size, p.etag, p.last_modified),
        *(p.latency_ms, p.attempt, p.proxy_id),
        *(q.verdict, q.title, q.description, q.lang, q.encoding, q.canonical_url, q.noindex, q.nofollow),
    ).select_from(PAGES.outerjoin(PARSED, p.key == q.key))


def _known() -> Select[Any]:
    p = PAGES.c
    return select(p.id, p.url, p.key, p.depth, p.referrer, p.etag, p.last_modified, p.sha256)


def _page_row(row: Row[Any]) -> PageRow:
    return PageRow(
        timestamp=views.timestamp(row.at),
        url=row.url,
        page_type=row.page_type,
        depth=row.depth,
        referrer=row.referrer,
        http_status=row.status,
        content_type=row.content_type,
        encoding=row.encoding or row.charset,
        content_sha256=row.sha256,
        content_bytes=row.size,
        stored_path=path_of(row.sha256) if row.sha256 else "",
        etag=row.etag,
        last_modified=row.last_modified,
        fetch_latency_ms=row.latency_ms,
        retries=max(0, row.attempt - 1),
        proxy_id=row.proxy_id,
        metadata=views.metadata(
            row.note,
            title=row.title,
            description=row.description,
            verdict=row.verdict,
            lang=row.lang,
            canonical_url=row.canonical_url,
            noindex=bool(row.noindex),
            nofollow=bool(row.nofollow),
        ),
    )


def _page_detail(row: Row[Any]) -> PageDetail:
    return PageDetail(
        row=_page_row(row),
        key=row.key,
        version=row.version,
        kind=row.kind,
        run=row.run,
        headers=views.headers(row.headers),
        answer_headers=views.headers(row.answer_headers),
        verdict=row.verdict or "",
        title=row.title or "",
        description=row.description or "",
        lang=row.lang or "",
        canonical_url=row.canonical_url or "",
        plain_text=row.text or "",
        packed_text=row.packed_text or b"",
        text_sha256=row.text_sha256 or "",
        noindex=bool(row.noindex),
        nofollow=bool(row.nofollow),
        outlinks=unpack_links(row.outlinks or b""),
        items=msgspec.msgpack.decode(row.items, type=tuple[bytes, ...]) if row.items else (),
    )


def _stored_page(row: Row[Any]) -> StoredPage:
    return StoredPage(
        key=row.key,
        url=row.body_url,
        sha256=row.sha256,
        stored_path=path_of(row.sha256),
        size=row.size,
        headers=views.headers(row.headers),
        charset=row.charset,
        content_type=row.content_type,
        fetched_at=row.body_at,
        version=row.body_version,
        depth=row.depth,
        referrer=row.referrer,
        page_type=row.page_type,
        etag=row.etag,
        last_modified=row.last_modified,
    )
