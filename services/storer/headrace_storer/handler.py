"""A record → what it asks of store and index. No I/O; a message that can never be stored is `Poison`."""

import re
import threading
from typing import Any, assert_never

import msgspec
import zstandard
from msgspec import Struct

from headrace_runtime.streams.poison import read
from headrace_runtime.streams.seams import Record
from headrace_schemas.errors import Poison
from headrace_schemas.messages import (
    Deferred,
    Failed,
    Fetched,
    FetchedPage,
    FetchResult,
    NotModified,
    ParsedPage,
    Redirected,
    Refused,
    Robots,
)
from headrace_storer.asked import requests_of
from headrace_storer.changes import Change, FetchChange, PageChange, ParsedChange
from headrace_storer.values import good_key, good_text, good_time, good_version

_SHA256 = re.compile(r"[0-9a-f]{64}")
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_json = msgspec.json.Encoder()


class _Compressor(threading.local):
    """A context costs three times the compression of a page's links to build, and serves one thread at a time."""

    def __init__(self) -> None:
        self.zstd = zstandard.ZstdCompressor(1)


_compressor = _Compressor()


class Body(Struct, frozen=True):
    sha256: str
    frame: bytes
    """zstd, as it came."""


class Job(Struct, frozen=True):
    """What one record asks for; nothing at all: it only has to be passed over."""

    change: PageChange | ParsedChange | None = None
    body: Body | None = None
    requests: tuple[FetchChange, ...] = ()
    """For the history."""

    @property
    def changes(self) -> tuple[Change, ...]:
        return self.requests if self.change is None else (self.change, *self.requests)


def handle(record: Record) -> Job:
    """Raises `Poison`, or `TooNew`."""
    message: FetchedPage | NotModified | FetchResult | ParsedPage = read(record)
    match message:
        case FetchedPage():
            return Job(_fetched(message), _body(message)) if message.store else Job(_followed(message))
        case NotModified():
            return Job(_not_modified(message))
        case FetchResult():
            return Job(_settled(message, record.timestamp), requests=requests_of(message))
        case ParsedPage():
            return Job(_parsed(message, record.timestamp))
        case _:
            assert_never(message)


def _body(page: FetchedPage) -> Body:
    """Hash and bytes are compared when a body is read: undoing zstd here would cost more than storing it."""
    if not _SHA256.fullmatch(page.sha256):
        raise Poison(f"not a SHA-256: {page.sha256[:80]!r}")
    if not page.body.startswith(_ZSTD_MAGIC):
        raise Poison("the body is not a zstd frame")
    return Body(page.sha256, page.body)


def _fetched(page: FetchedPage) -> PageChange:
    at = good_time(page.fetched_at)
    version = good_version(page.fetch_id)
    return PageChange(
        key=good_key(page.key),
        version=version,
        at=at,
        kind="page",
        url=good_text(page.url),
        status=page.status,
        page_type=good_text(page.page_type),
        depth=page.depth,
        referrer=good_text(page.referrer),
        latency_ms=page.latency_ms,
        attempt=page.attempt,
        proxy_id=good_text(page.proxy_id),
        run=page.run,
        note=_note(chain=page.chain, protocol=page.protocol),
        body_version=version,
        body_at=at,
        body_url=good_text(page.url),
        sha256=page.sha256,
        size=page.size,
        content_type=good_text(page.content_type),
        charset=good_text(page.charset),
        headers=_headers(page.headers),
        validator_version=version,
        validator_at=at,
        etag=good_text(page.etag),
        last_modified=good_text(page.last_modified),
    )


def _followed(page: FetchedPage) -> PageChange:
    """A page whose links alone were wanted: what was served is told, nothing of it is there. So there is no hash that
    would name a file, and nothing to ask for again: a 304 would bring no links."""
    change = _fetched(page)
    note = _note(chain=page.chain, protocol=page.protocol, followed_only=True)
    return msgspec.structs.replace(change, note=note, sha256="", etag="", last_modified="")


def _not_modified(page: NotModified) -> PageChange:
    at = good_time(page.fetched_at)
    version = good_version(page.fetch_id)
    change = PageChange(
        key=good_key(page.key),
        version=version,
        at=at,
        kind="not_modified",
        url=good_text(page.url),
        status=304,
        page_type=good_text(page.page_type),
        depth=page.depth,
        referrer=good_text(page.referrer),
        latency_ms=page.latency_ms,
        attempt=page.attempt,
        run=page.run,
    )
    if not (page.etag or page.last_modified):
        return change
    return msgspec.structs.replace(
        change,
        validator_version=version,
        validator_at=at,
        etag=good_text(page.etag),
        last_modified=good_text(page.last_modified),
    )


def _settled(result: FetchResult, appended_at: float) -> PageChange | None:
    """A row for what is answered or failed for good or for now. Pages have theirs from `pages.fetched`."""
    if result.kind != "page":
        return None
    outcome = result.outcome
    match outcome:
        case Redirected():
            note = _note(redirect_to=outcome.to, chain=result.chain)
            return _answered(result, appended_at, "redirected", outcome.status, note)
        case Failed():
            if not result.url and not result.key:
                return None  # an undecodable task: only the frontier knows which URL that was
            note = _note(reason=outcome.reason, detail=outcome.detail, chain=result.chain)
            return _answered(result, appended_at, "failed", outcome.status, note)
        case Fetched() | Refused() | Deferred() | Robots():
            return None
        case _:
            assert_never(outcome)


def _answered(result: FetchResult, appended_at: float, kind: Any, status: int, note: str) -> PageChange:
    return PageChange(
        key=good_key(result.key),
        version=good_version(result.fetch_id),
        at=good_time(result.finished_at or appended_at),
        kind=kind,
        url=good_text(result.url),
        status=status,
        page_type=good_text(result.page_type),
        depth=result.depth,
        referrer=good_text(result.referrer),
        latency_ms=result.latency_ms,
        attempt=result.attempt,
        run=result.run,
        note=note,
        answer_headers=_headers(result.headers),
    )


def _parsed(page: ParsedPage, appended_at: float) -> ParsedChange:
    return ParsedChange(
        key=good_key(page.key),
        version=good_version(page.fetch_id),
        at=good_time(page.parsed_at or appended_at),
        verdict=good_text(page.verdict),
        title=good_text(page.title),
        description=good_text(page.description),
        lang=good_text(page.lang),
        encoding=good_text(page.encoding),
        canonical_url=good_text(page.canonical_url),
        text_sha256=good_text(page.text_sha256),
        noindex=page.noindex,
        nofollow=page.nofollow,
        outlink_count=len(page.outlinks),
        text="" if page.packed_text else good_text(page.text),
        outlinks=pack_links(page.outlinks),
        items=msgspec.msgpack.encode(page.items) if page.items else b"",
        packed_text=_packed(page.packed_text),
    )


def _packed(text: bytes) -> bytes:
    """Whether it can be unpacked shows when someone reads it: as with bodies."""
    if text and not text.startswith(_ZSTD_MAGIC):
        raise Poison("the packed text is not a zstd frame")
    return text


def pack_links(links: tuple[str, ...]) -> bytes:
    return _compressor.zstd.compress(_json.encode(links)) if links else b""


def unpack_links(packed: bytes) -> tuple[str, ...]:
    return msgspec.json.decode(zstandard.decompress(packed), type=tuple[str, ...]) if packed else ()


def _note(**facts: Any) -> str:
    known = {name: fact for name, fact in facts.items() if fact}
    return _json.encode(known).decode() if known else ""


def _headers(headers: tuple[tuple[str, str], ...]) -> str:
    return _json.encode(headers).decode() if headers else ""
