"""What is sent with every request, and what is kept of an answer's headers."""

from collections.abc import Sequence
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import lru_cache

from headrace_schemas.messages import FetchTask

KEPT = 64  # headers of one answer
KEPT_BYTES = 16 * 1024  # of names and values together

ACCEPT = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.1"
ENCODINGS = "gzip, deflate, br, zstd"

Raw = Sequence[tuple[bytes, bytes]]


def user_agent(agent: str, version: str, contact: str) -> str:
    """Says who we are and where to complain (RFC 9110 section 10.1.5)."""
    contact = "".join(c for c in contact if c.isprintable() and c.isascii() and c not in "()\\")
    return f"{agent}/{version} (+{contact})" if contact else f"{agent}/{version}"


def standing(agent: str) -> list[tuple[bytes, bytes]]:
    """Built once; the same for every request."""
    return [
        (b"User-Agent", agent.encode("ascii")),
        (b"Accept", ACCEPT.encode()),
        (b"Accept-Encoding", ENCODINGS.encode()),
    ]


def conditions(task: FetchTask) -> list[tuple[bytes, bytes]]:
    """RFC 9110 section 13.1. Validators come from strangers: one that could break out of its header is left away."""
    found = []
    if sendable(task.etag):
        found.append((b"If-None-Match", task.etag.encode("latin-1")))
    if sendable(task.last_modified):
        found.append((b"If-Modified-Since", task.last_modified.encode("latin-1")))
    return found


def sendable(value: str) -> bool:
    return 0 < len(value) <= 1024 and all(" " <= c <= "~" or "\xa0" <= c <= "\xff" for c in value)


def text_of(value: bytes) -> str:
    """Headers are ASCII by the book; in the wild they are UTF-8 or Latin-1."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


@lru_cache(maxsize=4_096)  # the same few names come with every page
def _name_of(name: bytes) -> str:
    return text_of(name).lower()


class Headers:
    """Those of an answer. Some are asked for by name, in lower case: they are put in order once for all of these."""

    __slots__ = ("_first", "raw", "size")

    def __init__(self, raw: Raw = ()) -> None:
        self.raw = raw
        self.size = sum([len(name) + len(value) for name, value in raw])
        """Bytes of names and values."""
        self._first = {name.lower(): value for name, value in reversed(raw)}

    def first(self, name: bytes) -> str:
        value = self._first.get(name)
        return "" if value is None else text_of(value)

    def joined(self, name: bytes) -> str:
        """All values of a header that may be repeated, as one list."""
        if name not in self._first:
            return ""
        return ",".join(text_of(value) for key, value in self.raw if key.lower() == name)

    @property
    def length(self) -> int | None:
        """Of the body, as announced."""
        value = self.first(b"content-length")
        return int(value) if value.isascii() and value.isdigit() and len(value) < 19 else None

    def kept(self) -> tuple[tuple[str, str], ...]:
        """Lower-case, in order, bounded: a server may send any number of any size."""
        if len(self.raw) <= KEPT and self.size <= KEPT_BYTES:
            return tuple([(_name_of(name), text_of(value)) for name, value in self.raw])
        found: list[tuple[str, str]] = []
        size = 0
        for name, value in self.raw[:KEPT]:
            size += len(name) + len(value)
            if size > KEPT_BYTES:
                break
            found.append((_name_of(name), text_of(value)))
        return tuple(found)


NO_HEADERS = Headers()


def content_type(value: str) -> tuple[str, str]:
    """→ media type and charset, both lower-case, either may be empty."""
    return _common_type(value) if len(value) < 100 else _type_of(value)


def _type_of(value: str) -> tuple[str, str]:
    media, _, parameters = value.partition(";")
    charset = ""
    for parameter in parameters.split(";"):
        name, _, found = parameter.partition("=")
        if name.strip().lower() == "charset":
            charset = found.strip().strip("\"'").lower()[:40]
            break
    return media.strip().lower()[:100], charset


_common_type = lru_cache(maxsize=1_024)(_type_of)  # the same few, too


def retry_after(value: str, now: float) -> float:
    """Seconds, from a number or a date (RFC 9110 section 10.2.3); 0 if it says nothing usable."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    try:
        date = parsedate_to_datetime(value)
        if date.tzinfo is None:  # HTTP dates are of GMT whether they say so or not; Python would take our own zone
            date = date.replace(tzinfo=UTC)
        return max(0.0, date.timestamp() - now)
    except (ValueError, TypeError, OverflowError, IndexError):
        return 0.0
