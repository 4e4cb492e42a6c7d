"""What a message changes in the index, as columns. Pure data: `handler` makes it, `index` applies it.

A row of `pages` has three groups of columns, each with its own version, and a change moves a group only forward:

    answer      what the last request for this URL came to          every message of a fetch
    body        the last good body: hash, size, type, headers       FetchedPage only; no hash: it was not kept
    validators  etag, last_modified for the next conditional ask    FetchedPage, and a 304 that names one

So a 304, a redirect or a failure after a good fetch changes what is known of the last request and loses nothing of the
body. And the groups make the order of arrival irrelevant: `fetch.results` may be read before the older `pages.fetched`.
"""

from typing import Literal

from msgspec import Struct

ABSENT = -1
"""Version of a group the message says nothing about; real ones start at 0."""

AnswerKind = Literal["page", "not_modified", "redirected", "failed"]


class PageChange(Struct, frozen=True, gc=False, kw_only=True):
    """One row of `pages`, as far as one message knows it. Field names are column names."""

    key: bytes
    version: int
    """The fetch id: grows with every release of this URL."""
    at: float
    """Seconds since the epoch. Decides between two answers of one release: a crash may have a task fetched twice."""
    kind: AnswerKind
    url: str
    status: int
    """HTTP status, 0 if there was no answer."""
    page_type: str = "page"
    depth: int = 0
    referrer: str = ""
    latency_ms: int = 0
    attempt: int = 1
    proxy_id: str = ""
    run: int = 0
    note: str = ""
    """JSON object: redirect_to, chain, reason, detail, protocol, whichever apply; empty: none."""
    answer_headers: str = ""
    """JSON list of pairs; those of a page are in `headers`."""

    body_version: int = ABSENT
    body_at: float = 0.0
    body_url: str = ""
    """The spelling the body was fetched under: links in it are relative to this one."""
    sha256: str = ""
    size: int = 0
    content_type: str = ""
    charset: str = ""
    headers: str = ""

    validator_version: int = ABSENT
    validator_at: float = 0.0
    etag: str = ""
    last_modified: str = ""


class ParsedChange(Struct, frozen=True, gc=False, kw_only=True):
    """One row of `parsed`. `text` and the blobs come last: SQLite then reads a title without walking over them."""

    key: bytes
    version: int
    at: float
    verdict: str
    title: str = ""
    description: str = ""
    lang: str = ""
    encoding: str = ""
    canonical_url: str = ""
    text_sha256: str = ""
    noindex: bool = False
    nofollow: bool = False
    outlink_count: int = 0
    text: str = ""
    outlinks: bytes = b""
    """zstd of a JSON list of URLs; empty: none."""
    items: bytes = b""
    """msgpack list of what extractors yielded; empty: none."""
    packed_text: bytes = b""
    """The text as a zstd frame, as it came; `text` is empty then."""


class FetchChange(Struct, frozen=True, gc=False, kw_only=True):
    """One row of `fetches`: a request that was made. Only ever added; the same request, read twice, is one row."""

    key: bytes
    fetch_id: int
    at: float
    """Seconds since the epoch, when our side wrote the request."""
    host: str
    """Politeness key; of a hop, its host name."""
    delay: float
    """Seconds owed since the request to `host` before it; 0: none are known to be."""
    kind: str
    """page | robots | sitemap | hop"""
    url: str
    """That of the task, of a hop too."""
    attempt: int = 1
    status: int = 0
    outcome: str = ""
    """fetched | redirected | robots | failed:REASON | refused:REASON | deferred:REASON; of a hop empty"""
    latency_ms: int = 0
    connect_ms: int = -1
    """-1: part of `first_byte_ms`."""
    first_byte_ms: int = 0
    body_ms: int = 0
    received: int = 0
    protocol: str = ""
    proxy_id: str = ""


Change = PageChange | ParsedChange | FetchChange
