"""A robots.txt, read as RFC 9309 says and the large crawlers do: which of its groups are for us, and what they ask.

One pass over the text finds the lines that matter and nothing else is split: half a megabyte of whatever somebody wrote
must not take long.
"""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from headrace_frontier.rules import ALLOW, DISALLOW, Judge, RobotsVerdict, Rule, Rulebook, compiled
from headrace_schemas.urls import MAX_URL

LIMIT = 500 * 1024
"""Bytes that are read, RFC 9309 section 2.5; a line cut there is dropped."""
SITEMAPS = 1_000
"""So many are taken from one file."""

_TOKEN = re.compile(r"[A-Za-z_-]*")
_AGENT, _DELAY, _RATE, _SITEMAP = "User-agent", "Crawl-delay", "Request-rate", "Sitemap"
_FIELDS = {
    "user-agent": _AGENT,
    "useragent": _AGENT,
    "user agent": _AGENT,
    "allow": ALLOW,
    "disallow": DISALLOW,
    "dissallow": DISALLOW,
    "dissalow": DISALLOW,
    "disalow": DISALLOW,
    "diasllow": DISALLOW,
    "disallaw": DISALLOW,
    "crawl-delay": _DELAY,
    "crawl delay": _DELAY,
    "request-rate": _RATE,
    "request rate": _RATE,
    "sitemap": _SITEMAP,
    "sitemaps": _SITEMAP,
    "site-map": _SITEMAP,
}
_KNOWN = tuple(_FIELDS)
# A byte order mark: files are pasted together, and then it stands in the middle.
_LINE = re.compile(
    rf"^[ \t\v\f\xa0\ufeff]*+(?=[uadcrsUADCRS])((?:{'|'.join(_FIELDS)})[^\n\0#]*)", re.IGNORECASE | re.MULTILINE
)
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


class Delay(NamedTuple):
    seconds: float
    rule: str
    """The line that asks for it, for people."""


class _Section:
    """What is said to one agent, in whichever groups."""

    def __init__(self) -> None:
        self.named = False
        self.rules: list[Rule] = []
        self.delays: list[Delay] = []


class RobotsRules:
    """What one robots.txt says to one agent."""

    def __init__(self, book: Rulebook, delay: Delay | None, sitemaps: list[str]) -> None:
        self.book, self.delay, self.sitemaps = book, delay, sitemaps
        self._judge = Judge(book)

    @classmethod
    def parse(cls, text: bytes, agent: str) -> "RobotsRules":
        section, sitemaps = _read(_plain(text), agent.lower())
        delay = max(section.delays, key=lambda one: one.seconds, default=None)
        return cls(compiled(section.rules), delay, sitemaps)

    @property
    def crawl_delay(self) -> float | None:
        """Seconds asked for between two requests, by Crawl-delay or Request-rate; None: nothing was asked."""
        return None if self.delay is None else self.delay.seconds

    def allows(self, url: str) -> bool:
        return self.judge(url).allowed

    def judge(self, url: str) -> RobotsVerdict:
        return self._judge.judge(url)


def _plain(text: bytes) -> str:
    if len(text) >= LIMIT:
        text = text[:LIMIT]
        text = text[: max(text.rfind(b"\n"), text.rfind(b"\r")) + 1]
    # What is no UTF-8 keeps its octets: a path may be in Latin-1.
    return text.decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\r", "\n")


def _read(text: str, agent: str) -> tuple[_Section, list[str]]:
    """→ what holds for us: what is said to us by name, or else to everyone."""
    ours, everyone = _Section(), _Section()
    sitemaps: list[str] = []
    group: set[_Section] = set()
    above: set[_Section] = set()
    naming = directly = False
    for line, field, value in _directives(text):
        if field == _AGENT:
            # Rules are for all named since the last rule. A delay is no rule and ends no group, yet it is meant for
            # those named directly above it: "User-agent: slow, Crawl-delay: 60, User-agent: *, Disallow: /x".
            group, above = group if naming else set(), above if directly else set()
            naming = directly = True
            token = _token(value)
            if token in (agent, "*"):
                section = ours if token == agent else everyone
                section.named = True
                group, above = group | {section}, above | {section}
        elif field in (ALLOW, DISALLOW):
            naming = directly = False
            if value:
                for section in group:
                    section.rules.append(Rule(field, value, line))
        elif field == _SITEMAP:
            if len(sitemaps) < SITEMAPS and 0 < len(value) <= MAX_URL:
                sitemaps.append(value)
        else:
            directly = False
            seconds = _seconds(value) if field == _DELAY else _rate(value)
            if seconds is not None:
                for section in above:
                    section.delays.append(Delay(seconds, f"{field}: {value[:40]} (line {line})"))
    return ours if ours.named else everyone, sitemaps


def _directives(text: str) -> Iterator[tuple[int, str, str]]:
    number, at = 1, 0
    for found in _LINE.finditer(text):
        number += text.count("\n", at, found.start())
        at = found.start()
        directive = _directive(found[1])
        if directive is not None:
            yield number, *directive


def _directive(line: str) -> tuple[str, str] | None:
    """Field and value."""
    name, colon, value = line.partition(":")
    if colon:
        field = _FIELDS.get(name.strip().lower())
        if field is not None:
            return field, value.strip()
    words = line.split(None, 2)
    field = _FIELDS.get(words[0].lower())
    if field is not None:  # without the colon
        return (field, words[1]) if len(words) == 2 else None
    lowered = name.lower()
    for known, field in _FIELDS.items():
        if colon and lowered.startswith(known):  # "Disallowed:", as Google reads it
            return field, value.strip()
    return None


def _token(value: str) -> str:
    """Of a product, whole and in lower case."""
    if value == "*" or (value[:1] == "*" and value[1:2].isspace()):
        return "*"
    token = _TOKEN.match(value)
    return "" if token is None else token[0].lower()


def _seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _rate(value: str) -> float | None:
    """Requests/seconds, minutes, hours or days; the time of day that may follow is not looked at."""
    requests, slash, period = value.partition(" ")[0].partition("/")
    unit = _UNITS.get(period[-1:].lower())
    try:
        seconds = int(period if unit is None else period[:-1]) * (unit or 1) / int(requests)
    except (ValueError, ArithmeticError):
        return None
    return seconds if slash and seconds > 0 else None
