"""A robots.txt, read as RFC 9309 says and the large crawlers do: which of its groups are for us, and what they ask.

One pass over the text finds the lines that matter and nothing else is split: half a megabyte of whatever somebody wrote
must not take long.
"""

import math
import re
from collections.abc import Iterator
from typing import NamedTuple

from headrace_frontier.rules import ALLOW, DISALLOW, Judge, RobotsVerdict, Rule, Rulebook, compiled

LIMIT = 500 * 1024
"""Bytes that are read, RFC 9309 section 2.5; a line cut there is dropped."""
SITEMAPS = 1_000
"""So many are taken from one file, none longer than `SITEMAP` characters."""
SITEMAP = 2_083

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


class _Group:
    """Rules with the agents named before them."""

    def __init__(self) -> None:
        self.ours = self.everyone = False
        self.rules: list[Rule] = []
        self.delays: list[Delay] = []


class RobotsRules:
    """What one robots.txt says to one agent."""

    def __init__(self, book: Rulebook, delay: Delay | None, sitemaps: list[str]) -> None:
        self.book, self.delay, self.sitemaps = book, delay, sitemaps
        self._judge = Judge(book)

    @classmethod
    def parse(cls, text: bytes, agent: str) -> "RobotsRules":
        groups, sitemaps = _read(_plain(text), agent.lower())
        # The groups that name us, or else those for everyone; what they ask for comes from where their rules come from.
        ours = [group for group in groups if group.ours] or [group for group in groups if group.everyone]
        asked = [delay for group in ours for delay in group.delays]
        delay = max(asked, key=lambda one: one.seconds, default=None)
        return cls(compiled(rule for group in ours for rule in group.rules), delay, sitemaps)

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


def _read(text: str, agent: str) -> tuple[list[_Group], list[str]]:
    groups: list[_Group] = []
    sitemaps: list[str] = []
    group = _Group()  # of nobody: rules before the first agent
    naming = False
    for line, field, value in _directives(text):
        if field == _AGENT:
            if not naming:
                naming, group = True, _Group()
                groups.append(group)
            token = _token(value)
            group.ours = group.ours or token == agent
            group.everyone = group.everyone or token == "*"
        elif field in (ALLOW, DISALLOW):
            naming = False
            if value:
                group.rules.append(Rule(field, value, line))
        elif field == _SITEMAP:
            if len(sitemaps) < SITEMAPS and 0 < len(value) <= SITEMAP:
                sitemaps.append(value)
        else:
            seconds = _seconds(value) if field == _DELAY else _rate(value)
            if seconds is not None:
                group.delays.append(Delay(seconds, f"{field}: {value[:40]} (line {line})"))
    return groups, sitemaps


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
