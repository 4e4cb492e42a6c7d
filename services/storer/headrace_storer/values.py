"""Values of messages that both databases can hold and order; any other is `Poison`."""

from headrace_schemas.errors import Poison

_YEAR_10000 = 253_402_300_800.0  # the first second that a calendar cannot write


def good_key(key: bytes) -> bytes:
    if len(key) != 16:
        raise Poison(f"a key of {len(key)} bytes; 16 are needed")
    return key


def good_version(fetch_id: int) -> int:
    if fetch_id < 0:
        raise Poison(f"fetch id {fetch_id} is negative")
    return fetch_id


def good_time(seconds: float) -> float:
    if not 0.0 <= seconds < _YEAR_10000:  # refuses NaN too: it would compare as neither older nor newer
        raise Poison(f"not a time: {seconds!r}")
    return seconds


def good_text(text: str) -> str:
    """Without NUL, which PostgreSQL takes in no text; both databases are to hold the same."""
    return text.replace("\0", "") if "\0" in text else text
