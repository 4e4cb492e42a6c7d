"""Parsing again what was fetched, from the topics or from the store, into the index. Asks nothing of the web.

From the topics it also brings back what the storer once made of them, bodies and rows, where they are lost.

Extraction is a pure function of a stored page (design [20]) and rows are versioned by the fetch they came from, so a
replay may be run at any time, any number of times, beside a running crawl.
"""

import asyncio
import math
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import islice

import zstandard
from msgspec import Struct
from prometheus_client import CollectorRegistry

from headrace.compose import opened
from headrace.workspace import Workspace
from headrace_parser.frames import ParsedReply
from headrace_parser.pool import ParserPool
from headrace_parser.service import pool_of
from headrace_runtime.clock import Deadline, SystemClock
from headrace_runtime.streams.seams import Edge, Lane, Record, Streams, Unit
from headrace_schemas import codec
from headrace_schemas.errors import Poison
from headrace_schemas.messages import FetchedPage, FetchResult, NotModified, ParsedPage
from headrace_schemas.settings import Settings
from headrace_schemas.urls import host_of
from headrace_storer.archive import Archive, Batch
from headrace_storer.durable import NoSync
from headrace_storer.handler import handle
from headrace_storer.index import Index, open_index
from headrace_storer.service import open_store
from headrace_storer.store import Store
from headrace_storer.views import PageDetail, StoredPage

BATCH = 64  # pages under way at once: enough for every worker, bounded memory
TOPIC, SETTLED = "pages.fetched", "fetch.results"
"""Pages, with their bodies; and what else there are rows of: redirects, failures, the history of requests."""
_FACTS = ("verdict", "title", "description", "lang", "canonical_url", "text_sha256", "noindex", "nofollow", "outlinks")


class Selection(Struct, frozen=True):
    since: float | None = None
    """Seconds since the epoch."""
    until: float | None = None
    host: str = ""

    def takes(self, url: str, at: float) -> bool:
        if (self.since is not None and at < self.since) or (self.until is not None and at >= self.until):
            return False
        return not self.host or host_of(url) == self.host


class Tally(Struct):
    pages: int = 0
    changed: int = 0
    failed: int = 0
    restored: int = 0
    """Bytes of bodies that the store did not have."""
    complete_from: float = 0.0
    """What was fetched before this time is no longer all in the topic; 0: everything is."""


class Reparser:
    """Pages in, rows out. `changed` counts the pages whose facts differ from those in the index."""

    def __init__(self, index: Index, pool: ParserPool, dry_run: bool) -> None:
        self._index, self._pool, self._dry_run = index, pool, dry_run
        self.tally = Tally()

    async def parse(self, values: Sequence[bytes]) -> None:
        replies = await asyncio.gather(*(self._pool.submit(value) for value in values))
        await asyncio.to_thread(self._keep, replies)

    def _keep(self, replies: Sequence[ParsedReply]) -> None:
        changes = []
        for reply in replies:
            self.tally.pages += 1
            self.tally.failed += reply.verdict not in ("ok", "not_html")
            if not reply.parsed:
                continue
            page: ParsedPage = codec.decode("pages.parsed", reply.parsed)
            known = self._index.get(page.key)
            if known is None or _differs(page, known):
                self.tally.changed += 1
                change = handle(Record("pages.parsed", 0, 0, b"", reply.parsed, time.time())).change
                if change is not None:
                    changes.append(change)
        if changes and not self._dry_run:
            self._index.save(changes)


def _differs(page: ParsedPage, known: PageDetail) -> bool:
    return any(getattr(page, name) != getattr(known, name) for name in _FACTS)


async def replay_store(settings: Settings, workspace: Workspace, selection: Selection, *, dry_run: bool) -> Tally:
    """Needs neither engine nor lock: index and store are enough."""
    async with _reparser(settings, workspace, dry_run) as (reparser, index):
        store = Store(workspace.root, NoSync())
        chosen = (
            page for page in index.stored(host=selection.host or None) if selection.takes(page.url, page.fetched_at)
        )
        while batch := await asyncio.to_thread(_some, chosen):
            values = await asyncio.to_thread(_rebuilt, batch, store, reparser.tally)
            await reparser.parse(values)
        return reparser.tally


def _some(pages: Iterator[StoredPage]) -> list[StoredPage]:
    return list(islice(pages, BATCH))


def _rebuilt(pages: list[StoredPage], store: Store, tally: Tally) -> list[bytes]:
    """The messages that the fetcher once sent, as far as parsing goes."""
    values = []
    for page in pages:
        try:
            body = store.read(page.sha256)
        except Poison:  # missing or damaged on disk: counted, the others go on
            tally.pages += 1
            tally.failed += 1
            continue
        message = FetchedPage(
            fetch_id=page.version,
            url=page.url,
            key=page.key,
            status=200,
            fetched_at=page.fetched_at,
            body=zstandard.compress(body, 1),
            sha256=page.sha256,
            size=page.size,
            headers=page.headers,
            content_type=page.content_type,
            charset=page.charset,
            depth=page.depth,
            referrer=page.referrer,
            page_type=page.page_type,
        )
        values.append(codec.encode(message))
    return values


class _Start:
    """Whether reading began where the topic was cut off, and at which time."""

    def __init__(self, begins: Sequence[int]) -> None:
        self._begins = begins
        self._first: dict[int, Record] = {}

    def saw(self, record: Record) -> None:
        if record.topic == TOPIC:
            self._first.setdefault(record.partition, record)

    @property
    def complete_from(self) -> float:
        cut = (record.timestamp for p, record in self._first.items() if 0 < self._begins[p] == record.offset)
        return max(cut, default=0.0)


async def replay_topic(settings: Settings, workspace: Workspace, selection: Selection, *, dry_run: bool) -> Tally:
    """With a group of its own, from `since` to the ends as they are now."""
    group = f"replay-{uuid.uuid4().hex[:12]}"
    async with (
        opened(settings, workspace, create=False) as parts,
        _reparser(settings, workspace, dry_run, create=not dry_run) as (reparser, index),
    ):
        archive = Archive(open_store(settings, workspace.root), lambda: index, lambda: -math.inf)
        start = _Start(await parts.streams.begins(TOPIC))

        async def serve(lane: Lane) -> None:
            while lane.stopping is None:
                records = await lane.poll(BATCH, 0.25)
                if not records:
                    continue
                for record in records:
                    start.saw(record)
                chosen = [(record, kind) for record in records if (kind := _chosen(record, selection)) is not None]
                if chosen and not dry_run:
                    batch = Batch([record for record, _ in chosen])
                    async with keeping:
                        await asyncio.to_thread(archive.keep, batch)
                    reparser.tally.restored += batch.written
                await reparser.parse([record.value for record, kind in chosen if kind is FetchedPage])
                unit = Unit()
                unit.done.extend(records)
                await lane.commit(unit)

        keeping = asyncio.Lock()  # an archive serves one thread at a time
        ends = {_place(edge): edge.end for edge in await parts.streams.edges(_edges(group))}
        member = await parts.streams.join(group, [TOPIC, SETTLED], serve, since=selection.since)
        running = asyncio.create_task(member.run())
        try:
            while not running.done() and not await _read_to(parts.streams, group, ends):
                await asyncio.wait([running], timeout=0.2)
            await member.stop(Deadline(settings.shutdown_timeout))
            await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        reparser.tally.complete_from = start.complete_from
        return reparser.tally


def _edges(group: str) -> list[tuple[str, str]]:
    return [(topic, group) for topic in (TOPIC, SETTLED)]


def _place(edge: Edge) -> tuple[str, int]:
    return edge.topic, edge.partition


async def _read_to(streams: Streams, group: str, ends: dict[tuple[str, int], int]) -> bool:
    return all(edge.committed >= ends[_place(edge)] for edge in await streams.edges(_edges(group)))


def _chosen(record: Record, selection: Selection) -> type[FetchedPage | NotModified | FetchResult] | None:
    """The type of its message, if it is wanted."""
    try:
        message: FetchedPage | NotModified | FetchResult = codec.decode(record.topic, record.value)
    except Poison:  # buried by those who read it when it came by
        return None
    at = (message.finished_at or record.timestamp) if isinstance(message, FetchResult) else message.fetched_at
    return type(message) if selection.takes(message.url, at) else None


@asynccontextmanager
async def _reparser(
    settings: Settings, workspace: Workspace, dry_run: bool, *, create: bool = False
) -> AsyncIterator[tuple[Reparser, Index]]:
    """`create`: make an index if it is lost."""
    index = open_index(settings, workspace.root, create=create)
    pool = pool_of(settings, SystemClock(), CollectorRegistry())
    try:
        await pool.start()
        yield Reparser(index, pool, dry_run), index
    finally:
        await pool.close()
        index.close()
