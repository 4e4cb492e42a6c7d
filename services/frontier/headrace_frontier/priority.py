"""What is asked for first within a host: one score for a URL, from what it is and how far it lies."""

from headrace_schemas.patterns import Patterns

HIGH, MEDIUM, LOW = 0, 1, 2
WORDS = ("high", "medium", "low")
_SHALLOW = 2
_DEEP = 5


def score(url: str, depth: int, is_seed: bool, listings: Patterns) -> int:
    """`listings`: pages that only list others, however shallow: what they lead to is often known from elsewhere."""
    if is_seed or is_homepage(url):
        return HIGH
    if depth > _DEEP or (listings and listings.first(url) < len(listings.texts)):
        return LOW
    return HIGH if depth <= _SHALLOW else MEDIUM


def is_homepage(url: str) -> bool:
    """`url` as found."""
    return url.endswith("/") and url.find("/", 8) == len(url) - 1
