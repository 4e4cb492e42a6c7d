"""What is remembered of every URL ever found: a few bytes under its dedupe key.

    state and flags (u8) | depth (u16) | hop (u8) | reason (u8) | attempts (u8) | revision (u32) | run (u32) | place

`place` is there only while the URL is queued: the end of its queue key, so that a better way to it can move it.
"""

import struct

from msgspec import Struct

from headrace_schemas.messages import State

SEEN = b"s"
_FIXED = struct.Struct(">BHBBBII")
_COUNTED = 0x80
_STATE = 0x0F
_STATES = {int(state): state for state in State}
MAX_DEPTH = 0xFFFF
_BYTE = 0xFF

# Written to disk as positions: append only, never reorder.
REASONS = (
    "",
    "depth",
    "hop",
    "robots_disallow",
    "address",
    "trap",
    "cap",
    "http",
    "timeout",
    "connect",
    "dns",
    "tls",
    "protocol",
    "too_large",
    "decode",
    "not_html",
    "bad_redirect",
    "too_many_redirects",
    "host_dead",
    "robots_unavailable",
    "poison",
    "crashed",
    "over_budget",
    "too_slow",
    "headers",
    "host_not_allowed",
    "subdomain_denied",
    "denied_pattern",
    "not_in_allowlist",
)
_CODES = {reason: code for code, reason in enumerate(REASONS)}
_OTHER = 0xFF


class Entry(Struct, frozen=True, gc=False):
    state: State
    depth: int = 0
    hop: int = 0
    reason: str = ""
    """Why it failed or was refused; `other` for a word this release does not know."""
    attempts: int = 0
    """Requests that failed in a way that may pass."""
    revision: int = 0
    """Of `crawl.control`, judged by: a refusal is judged again under a newer one."""
    run: int = 0
    """The last run id under which it was queued again."""
    counted: bool = False
    """It has been fetched once: it takes no second credit of `max_pages`."""
    place: bytes = b""


def known_reason(reason: str) -> str:
    """The word itself, or `other`: what comes back from disk must be what was counted."""
    return reason if reason in _CODES else "other"


def seen_key(key: bytes) -> bytes:
    return SEEN + key


def pack(entry: Entry) -> bytes:
    head = _FIXED.pack(
        entry.state | (_COUNTED if entry.counted else 0),
        min(entry.depth, MAX_DEPTH),
        min(entry.hop, _BYTE),
        _CODES.get(entry.reason, _OTHER),
        min(entry.attempts, _BYTE),
        entry.revision,
        entry.run,
    )
    return head + entry.place


def unpack(raw: bytes) -> Entry:
    flags, depth, hop, code, attempts, revision, run = _FIXED.unpack_from(raw)
    reason = REASONS[code] if code < len(REASONS) else "other"
    place = raw[_FIXED.size :]
    return Entry(
        _STATES[flags & _STATE], depth, hop, reason, attempts, revision, run, bool(flags & _COUNTED), bytes(place)
    )


def nothing_new(raw: bytes, depth: int, again: int) -> bool:
    """Most links lead to a URL that is known well enough: told from its bytes, without unpacking them."""
    return not again and raw[0] & _STATE != State.REFUSED and depth >= (raw[1] << 8 | raw[2])
