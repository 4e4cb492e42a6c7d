"""What the index gives back: to exports, to `show` and `explain`, to replay and refresh, to the proof of politeness."""

from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple

import msgspec
from msgspec import Struct

from headrace_schemas.texts import unpacked
from headrace_storer.values import good_text

_json = msgspec.json.Encoder(order="sorted")


class PageRow(Struct, frozen=True):
    """One row as exported; field order is a contract that scripts rely on. Unknown is "" or 0, never null.

    timestamp to referrer, http_status, latency, retries and proxy are of the last request; content_type to
    last_modified and the page facts in `metadata` are of the last good body, which a later 304, redirect or failure
    leaves as it is.
    """

    FIELDS: ClassVar[tuple[str, ...]]

    timestamp: str
    """ISO 8601, UTC, milliseconds."""
    url: str
    page_type: str
    depth: int
    referrer: str
    http_status: int
    """0: there was no answer."""
    content_type: str
    encoding: str
    content_sha256: str
    content_bytes: int
    """Of the body as served, decompressed; also of a page that was only followed."""
    stored_path: str
    """Relative to the workspace; empty: no body is kept."""
    etag: str
    last_modified: str
    fetch_latency_ms: int
    retries: int
    proxy_id: str
    metadata: str
    """A JSON object, keys sorted: title, description, redirect_to, chain, reason, verdict … whichever apply."""


PageRow.FIELDS = PageRow.__struct_fields__


class PageDetail(Struct, frozen=True):
    """Everything known of one URL."""

    row: PageRow
    key: bytes
    version: int
    kind: str
    """page | not_modified | redirected | failed: what the last request came to."""
    run: int
    headers: tuple[tuple[str, str], ...]
    """Of the stored body."""
    answer_headers: tuple[tuple[str, str], ...]
    """Of the last answer, where that was no page."""
    verdict: str = ""
    """Empty: not parsed (yet)."""
    title: str = ""
    description: str = ""
    lang: str = ""
    canonical_url: str = ""
    plain_text: str = ""
    packed_text: bytes = b""
    text_sha256: str = ""
    noindex: bool = False
    nofollow: bool = False
    outlinks: tuple[str, ...] = ()
    items: tuple[bytes, ...] = ()

    @property
    def text(self) -> str:
        """Unpacked for whoever asks: a replay does not, and no damaged text must stop it. `Poison`: it is damaged."""
        return self.plain_text or (good_text(unpacked(self.packed_text)) if self.packed_text else "")


class StoredPage(NamedTuple):
    """A page whose body is in the store: what a replay needs to make its `FetchedPage` again."""

    key: bytes
    url: str
    """The spelling the body was fetched under."""
    sha256: str
    stored_path: str
    size: int
    headers: tuple[tuple[str, str], ...]
    charset: str
    """From the Content-Type header."""
    content_type: str
    fetched_at: float
    """Seconds since the epoch, of the body."""
    version: int
    """The fetch id the body came under."""
    depth: int
    referrer: str
    page_type: str
    etag: str
    last_modified: str


class KnownPage(NamedTuple):
    """A URL to ask for again."""

    url: str
    key: bytes
    depth: int
    referrer: str
    etag: str = ""
    last_modified: str = ""
    sha256: str = ""


class Fetch(NamedTuple):
    """One request that was made."""

    at: float
    """Seconds since the epoch, when our side wrote the request."""
    host: str
    """The politeness key it was asked under; of a hop, its host name."""
    delay: float
    """Seconds owed since the request to `host` before it."""
    kind: str
    """page | robots | sitemap | hop"""
    url: str
    fetch_id: int
    attempt: int
    status: int
    """0: there was no answer, or it was a hop."""
    outcome: str
    """fetched | redirected | robots | failed:REASON | refused:REASON | deferred:REASON; of a hop empty"""
    latency_ms: int
    connect_ms: int
    """-1: part of `first_byte_ms`."""
    first_byte_ms: int
    body_ms: int
    received: int
    """Bytes of body over the wire."""
    protocol: str
    proxy_id: str


class Asked(NamedTuple):
    """What of a request the proof of politeness looks at."""

    host: str
    at: float
    delay: float
    kind: str
    url: str


def timestamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def metadata(note: str, **facts: Any) -> str:
    known: dict[str, Any] = msgspec.json.decode(note) if note else {}
    known.update({name: fact for name, fact in facts.items() if fact})
    return _json.encode(known).decode()


def headers(text: str) -> tuple[tuple[str, str], ...]:
    return msgspec.json.decode(text, type=tuple[tuple[str, str], ...]) if text else ()
