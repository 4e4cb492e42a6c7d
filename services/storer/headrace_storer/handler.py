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
from headrace_storer.changes import Change, PageChange, ParsedChange

_SHA256 = re.compile(r"[0-9a-f]{64}")
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_YEAR_10000 = 253_402_300_800.0  # the first second that a calendar cannot write
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
    """What one record asks for; neither body nor change: it only has to be passed over."""

    change: Change | None = None
    body: Body | None = None


def handle(record: Record) -> Job:
    """Raises `Poison`, or `TooNew`."""
    message: FetchedPage | NotModified | FetchResult | ParsedPage = read(record)
    match message:
        case FetchedPage():
            return Job(_fetched(message), _body(message))
        case NotModified():
            return Job(_not_modified(message))
        case FetchResult():
            return Job(_settled(message, record.timestamp))
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
    at = _time(page.fetched_at)
    version = _version(page.fetch_id)
    return PageChange(
        key=_key(page.key),
        version=version,
        at=at,
        kind="page",
        url=_text(page.url),
        status=page.status,
        page_type=_text(page.page_type),
        depth=page.depth,
        referrer=_text(page.referrer),
        latency_ms=page.latency_ms,
        attempt=page.attempt,
        proxy_id=_text(page.proxy_id),
        run=page.run,
        note=_note(chain=page.chain, protocol=page.protocol),
        body_version=version,
        body_at=at,
        body_url=_text(page.url),
        sha256=page.sha256,
        size=page.size,
        content_type=_text(page.content_type),
        charset=_text(page.charset),
        headers=_headers(page.headers),
        validator_version=version,
        validator_at=at,
        etag=_text(page.etag),
        last_modified=_text(page.last_modified),
    )


def _not_modified(page: NotModified) -> PageChange:
    at = _time(page.fetched_at)
    version = _version(page.fetch_id)
    change = PageChange(
        key=_key(page.key),
        version=version,
        at=at,
        kind="not_modified",
        url=_text(page.url),
        status=304,
        page_type=_text(page.page_type),
        depth=page.depth,
        referrer=_text(page.referrer),
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
        etag=_text(page.etag),
        last_modified=_text(page.last_modified),
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
        key=_key(result.key),
        version=_version(result.fetch_id),
        at=_time(result.finished_at or appended_at),
        kind=kind,
        url=_text(result.url),
        status=status,
        page_type=_text(result.page_type),
        depth=result.depth,
        referrer=_text(result.referrer),
        latency_ms=result.latency_ms,
        attempt=result.attempt,
        run=result.run,
        note=note,
        answer_headers=_headers(result.headers),
    )


def _parsed(page: ParsedPage, appended_at: float) -> ParsedChange:
    return ParsedChange(
        key=_key(page.key),
        version=_version(page.fetch_id),
        at=_time(page.parsed_at or appended_at),
        verdict=_text(page.verdict),
        title=_text(page.title),
        description=_text(page.description),
        lang=_text(page.lang),
        encoding=_text(page.encoding),
        canonical_url=_text(page.canonical_url),
        text_sha256=_text(page.text_sha256),
        noindex=page.noindex,
        nofollow=page.nofollow,
        outlink_count=len(page.outlinks),
        text=_text(page.text),
        outlinks=pack_links(page.outlinks),
        items=msgspec.msgpack.encode(page.items) if page.items else b"",
    )


def pack_links(links: tuple[str, ...]) -> bytes:
    return _compressor.zstd.compress(_json.encode(links)) if links else b""


def unpack_links(packed: bytes) -> tuple[str, ...]:
    return msgspec.json.decode(zstandard.decompress(packed), type=tuple[str, ...]) if packed else ()


# ---- values ---------------------------------------------------------------------------------------


def _key(key: bytes) -> bytes:
    if len(key) != 16:
        raise Poison(f"a key of {len(key)} bytes; 16 are needed")
    return key


def _version(fetch_id: int) -> int:
    if fetch_id < 0:
        raise Poison(f"fetch id {fetch_id} is negative")
    return fetch_id


def _time(seconds: float) -> float:
    if not 0.0 <= seconds < _YEAR_10000:  # refuses NaN too: it would compare as neither older nor newer
        raise Poison(f"not a time: {seconds!r}")
    return seconds


def _text(text: str) -> str:
    """Without NUL, which PostgreSQL takes in no text; both databases are to hold the same."""
    return text.replace("\0", "") if "\0" in text else text


def _note(**facts: Any) -> str:
    known = {name: fact for name, fact in facts.items() if fact}
    return _json.encode(known).decode() if known else ""


def _headers(headers: tuple[tuple[str, str], ...]) -> str:
    return _json.encode(headers).decode() if headers else ""
