"""What a page asks of robots: `<meta name=robots>` and the X-Robots-Tag header."""

from collections.abc import Iterable
from typing import NamedTuple

_WITH_VALUE = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")


class Directives(NamedTuple):
    noindex: bool = False
    nofollow: bool = False

    def and_also(self, content: str) -> "Directives":
        """With those of one comma-separated list added; of two that disagree the stricter one holds."""
        words = {word.strip().lower() for word in content.split(",")}
        every = "none" in words
        return Directives(self.noindex or every or "noindex" in words, self.nofollow or every or "nofollow" in words)


def from_headers(headers: Iterable[tuple[str, str]], agent: str) -> Directives:
    """X-Robots-Tag may be addressed: `otherbot: noindex` is not for us."""
    found = Directives()
    for name, value in headers:
        if name == "x-robots-tag":
            found = found.and_also(_for_us(value, agent.lower()))
    return found


def _for_us(value: str, agent: str) -> str:
    ours, mine = [], True
    for part in value.split(","):
        name, colon, rest = part.partition(":")
        name = name.strip().lower()
        if colon and name not in _WITH_VALUE:
            mine, part = name == agent, rest  # a name speaks for all that follows it
        if mine:
            ours.append(part)
    return ",".join(ours)
