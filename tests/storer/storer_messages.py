"""Messages as the other services would send them."""

import hashlib
from typing import Any

import msgspec
import zstandard

from headrace_runtime.streams.seams import Record
from headrace_schemas import codec
from headrace_schemas.messages import Failed, FetchedPage, FetchResult, NotModified, Outcome, ParsedPage, Redirected
from headrace_schemas.urls import Canonicaliser

URL = "http://site.test/page"
_canonical = Canonicaliser()


def key_of(url: str) -> bytes:
    return _canonical.key(url)


def page(fetch_id: int = 1, url: str = URL, body: bytes = b"<h1>hello</h1>", **more: Any) -> FetchedPage:
    fields: dict[str, Any] = {
        "fetch_id": fetch_id,
        "url": url,
        "key": key_of(url),
        "status": 200,
        "fetched_at": 1_700_000_000.25 + fetch_id,
        "body": zstandard.compress(body, 3),
        "sha256": hashlib.sha256(body).hexdigest(),
        "size": len(body),
        "headers": (("content-type", "text/html; charset=utf-8"), ("server", "x")),
        "content_type": "text/html",
        "charset": "utf-8",
        "etag": f'"e{fetch_id}"',
        "last_modified": "Tue, 14 Nov 2023 22:13:20 GMT",
        "depth": 2,
        "referrer": "http://site.test/",
        "latency_ms": 12,
    }
    return FetchedPage(**(fields | more))


def not_modified(fetch_id: int, url: str = URL, **more: Any) -> NotModified:
    return NotModified(fetch_id, url, key_of(url), 1_700_000_000.5 + fetch_id, **more)


def result(fetch_id: int, outcome: Outcome, url: str = URL, **more: Any) -> FetchResult:
    fields: dict[str, Any] = {"finished_at": 1_700_000_000.75 + fetch_id}
    return FetchResult(fetch_id, url, key_of(url), outcome, **(fields | more))


def failed(fetch_id: int, reason: str = "http", status: int = 503, url: str = URL, **more: Any) -> FetchResult:
    return result(fetch_id, Failed(reason, status, detail="so it said"), url, **more)


def redirected(fetch_id: int, to: str = "http://site.test/other", url: str = URL, **more: Any) -> FetchResult:
    return result(fetch_id, Redirected(301, to, key_of(to)), url, **more)


def parsed(fetch_id: int, url: str = URL, **more: Any) -> ParsedPage:
    fields: dict[str, Any] = {
        "verdict": "ok",
        "title": f"Title {fetch_id}",
        "text": "hello",
        "encoding": "windows-1252",
        "outlinks": ("http://site.test/a", "http://site.test/b"),
        "parsed_at": 1_700_000_001.0 + fetch_id,
    }
    return ParsedPage(fetch_id, url, key_of(url), **(fields | more))


_TOPICS = {
    FetchedPage: "pages.fetched",
    NotModified: "pages.fetched",
    FetchResult: "fetch.results",
    ParsedPage: "pages.parsed",
}


def record(message: msgspec.Struct, offset: int = 0) -> Record:
    return Record(_TOPICS[type(message)], 0, offset, b"", codec.encode(message), 1_700_000_100.0)


def raw(value: bytes, topic: str = "pages.fetched", offset: int = 0) -> Record:
    return Record(topic, 0, offset, b"", value, 1_700_000_100.0)
