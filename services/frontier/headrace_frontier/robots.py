"""robots.txt by RFC 9309: Protego decides, behind a filter of the text.

The filter removes what made Protego differ from Google's parser on real files: lines split where only Python splits
them, agent names that match by substring, bytes behind a NUL. What is left has three kinds of agents: ours, `*`, and
one that can match nobody.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from protego import Protego

LIMIT = 500 * 1024
"""Bytes that are read, RFC 9309 section 2.5; a line cut there is dropped."""

_BREAK = re.compile(r"\r\n|\r|\n")
_TOKEN = re.compile(r"[A-Za-z_-]*")
_NOBODY = "~"
_AGENT, _ALLOW, _DISALLOW = "User-agent", "Allow", "Disallow"
_FIELDS = {
    "user-agent": _AGENT,
    "useragent": _AGENT,
    "user agent": _AGENT,
    "allow": _ALLOW,
    "disallow": _DISALLOW,
    "dissallow": _DISALLOW,
    "dissalow": _DISALLOW,
    "disalow": _DISALLOW,
    "diasllow": _DISALLOW,
    "disallaw": _DISALLOW,
}
_EXTRAS = ("crawl-delay", "crawl delay", "request-rate", "request rate", "sitemap", "site-map")
# Characters at which str.splitlines, and so Protego, would break a rule in two.
_SEPARATORS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


class Rule(NamedTuple):
    field: str
    value: str
    line: int


class RobotsVerdict(NamedTuple):
    allowed: bool
    rule: str
    """The line that decided, for people."""


class RobotsRules:
    """What one robots.txt says to one agent."""

    def __init__(self, parser: Protego, rules: list[Rule], agent: str, delay: float | None, maps: list[str]) -> None:
        self._parser, self._rules, self._agent = parser, rules, agent
        self.crawl_delay = delay
        """Seconds asked for between two requests, by Crawl-delay or Request-rate; None: nothing was asked."""
        self.sitemaps = maps

    @classmethod
    def parse(cls, text: bytes, agent: str) -> "RobotsRules":
        plain = _plain(text)
        ours, everyone, clean = _groups(plain, agent.lower())
        delay, maps = _extras(plain, agent)
        rules = everyone if ours is None else ours
        return cls(Protego.parse("\n".join(clean)), rules, agent.lower(), delay, maps)

    def allows(self, url: str) -> bool:
        """`judge` without the search for the line."""
        if not self._rules:
            return True
        try:
            url.encode()
            return bool(self._parser.can_fetch(url, self._agent))
        except ValueError:  # a lone surrogate, or a URL that urllib cannot split
            return False

    def judge(self, url: str) -> RobotsVerdict:
        allowed = self.allows(url)
        field = _ALLOW if allowed else _DISALLOW
        # Longest first, as Protego does it.
        for rule in sorted(self._rules, key=lambda rule: len(rule.value), reverse=True):
            if rule.field == field and _matches(rule, url):
                return RobotsVerdict(allowed, f"{rule.field}: {rule.value} (line {rule.line})")
        return RobotsVerdict(allowed, "no rule matches" if allowed else "the URL is unreadable")


def compact(text: bytes) -> bytes:
    """`text` without what nobody reads, but with its line numbers: what is kept in the state."""
    lines = []
    for line in _BREAK.split(_plain(text)):
        bare = _bare(line)
        lines.append(bare if _directive(bare) or bare.lower().startswith(_EXTRAS) else "")
    return "\n".join(lines).rstrip("\n").encode()


def _plain(text: bytes) -> str:
    if len(text) >= LIMIT:
        text = text[:LIMIT]
        text = text[: max(text.rfind(b"\n"), text.rfind(b"\r")) + 1]
    return text.decode("utf-8", "replace").removeprefix("\ufeff")


def _bare(line: str) -> str:
    return line.partition("\0")[0].partition("#")[0].strip()


def _directive(line: str) -> tuple[str, str] | None:
    """Field and value of a line that rules are made of, else None."""
    if not line:
        return None
    name, colon, value = line.partition(":")
    if colon:
        field = _FIELDS.get(name.strip().lower())
        if field is not None:
            return field, value.strip()
    words = line.split()
    field = _FIELDS.get(words[0].lower())
    if field is not None:
        return (field, words[1]) if len(words) == 2 else None
    lowered = name.lower().lstrip()
    for known, field in _FIELDS.items():
        if colon and lowered.startswith(known):  # "Disallowed:", as Google reads it
            return field, value.strip()
    return None


def _groups(text: str, agent: str) -> tuple[list[Rule] | None, list[Rule], list[str]]:
    """→ rules of our own groups (None: there is no such group), rules for everyone, and the text for Protego."""
    ours: list[Rule] | None = None
    everyone: list[Rule] = []
    clean: list[str] = []
    current: list[list[Rule]] = []
    naming = False
    for number, field, value in _directives(text):
        if field == _AGENT:
            if not naming:
                current = []
            naming = True
            name = _agent(value, agent)
            if name == agent:
                ours = [] if ours is None else ours
                current.append(ours)
            elif name == "*":
                current.append(everyone)
            clean.append(f"{_AGENT}: {name}")
            continue
        naming = False
        clean.append(f"{field}: {value}")
        if value:
            for rules in current:
                rules.append(Rule(field, value, number))
    return ours, everyone, clean


def _directives(text: str) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(_BREAK.split(text), 1):
        found = _directive(_bare(line))
        if found is not None:
            yield number, found[0], _SEPARATORS.sub(_escape, found[1])


def _escape(match: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in match[0].encode())


def _agent(value: str, agent: str) -> str:
    if value == "*" or (value[:1] == "*" and value[1:2].isspace()):
        return "*"
    token = _TOKEN.match(value)
    return agent if token is not None and token[0].lower() == agent else _NOBODY


def _extras(text: str, agent: str) -> tuple[float | None, list[str]]:
    """Crawl-delay or Request-rate, and sitemaps: no part of RFC 9309, read as Protego does."""
    lowered = text.lower()
    if not any(word in lowered for word in _EXTRAS):
        return None, []
    parser = Protego.parse(text)
    delay: float | None = parser.crawl_delay(agent)
    rate = parser.request_rate(agent)
    if rate is not None:
        delay = max(delay or 0.0, rate.seconds / rate.requests)
    return delay, list(parser.sitemaps)


def _matches(rule: Rule, url: str) -> bool:
    """Whether this one rule would have decided alone; asked only to explain."""
    lines = [f"{_AGENT}: *", f"{_DISALLOW}: /", f"{_ALLOW}: {rule.value}"]
    if rule.field == _DISALLOW:
        lines = [f"{_AGENT}: *", f"{_DISALLOW}: {rule.value}"]
    try:
        url.encode()
        allowed = bool(Protego.parse("\n".join(lines)).can_fetch(url, "x"))
    except ValueError:
        return False
    return allowed == (rule.field == _ALLOW)
