"""The rules of a robots.txt that are for us, compiled: a verdict costs little, whoever wrote them and however many.

RFC 9309 section 2.2.2: the longest rule that matches decides, and of two of one length the one that allows. Most rules
are prefixes: they stand sorted in one text, and the longest that matches a path is found by bisection. What holds a `*`
that is not at its end is tried one by one, so there are bounds for these.
"""

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from msgspec import Struct

from headrace_schemas.urls import MAX_URL

WILD_RULES = 1_000
WILD_BYTES = 32 * 1024
"""So many rules with a `*` inside, and so long together, are tried. A file with more allows nothing: what the others
would have forbidden is not known, and no site that means well has so many."""

ALLOW, DISALLOW = "Allow", "Disallow"
_INDEX, _ITSELF = "index.html", "/robots.txt"
_ODD = re.compile(rb"%[0-9A-Fa-f]{2}|[^A-Za-z0-9_.~/=%*-]")
_EVEN = re.compile(r"[A-Za-z0-9_.~/=*-]+").fullmatch
_EVEN_URL = re.compile(r"https?://[^/?#]*(/[A-Za-z0-9_.~/=-]*)").fullmatch
_AUTHORITY = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*")
_LONGEST = 3 * MAX_URL  # of a path, if each octet of it is escaped
_SHOWN = 200  # characters of a rule
_BARE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~=-")
_COLUMNS = 6  # of the table: start, end of the prefix, end, line and field, next shorter prefix, who decides


class Rule(NamedTuple):
    field: str
    value: str
    line: int


class RobotsVerdict(NamedTuple):
    allowed: bool
    rule: str
    """The line that decided, for people."""


class Rulebook(Struct, frozen=True, gc=False, array_like=True):
    """Compiled rules as they are kept: nothing of them is to be parsed again."""

    text: bytes = b""
    """The rules that are prefixes, sorted, one behind the other."""
    table: bytes = b""
    """32-bit numbers, `_COLUMNS` for each of them."""
    wild: tuple[tuple[str, int], ...] = ()
    """The others, the one that decides first: pattern, line and field."""
    beyond: int = 0
    """The line at which there were too many of these."""

    @property
    def size(self) -> int:
        """About as many bytes as its `Judge` takes."""
        return 500 + len(self.text) + len(self.table) + sum(400 + 2 * len(pattern) for pattern, _ in self.wild)


_Wild = tuple[int, str, list[str], str | None, str, int]
"""Rank, what stands before the first star, what is to be found after it, how it must end, pattern, line and field."""


class Judge:
    def __init__(self, book: Rulebook) -> None:
        self._text, self._table, self._beyond = book.text, memoryview(book.table).cast("i"), book.beyond
        self._count = len(self._table) // _COLUMNS
        self._wild = [_parts(pattern, fact) for pattern, fact in book.wild]
        self._wild_bytes = sum(len(pattern) for pattern, _ in book.wild)

    def cost(self, url: str) -> int:
        """Nanoseconds that a verdict takes, about; more than that only for rules and a URL made for each other."""
        return 1_000 + 150 * len(self._wild) + self._wild_bytes * len(url) // 16

    def judge(self, url: str) -> RobotsVerdict:
        if not self._count and not self._wild and not self._beyond:
            return RobotsVerdict(True, "no rule matches")
        try:
            path = _path(url)
        except UnicodeEncodeError:  # a lone surrogate
            return RobotsVerdict(False, "the URL is unreadable")
        if path == _ITSELF or path.startswith(_ITSELF + "%3F"):
            return RobotsVerdict(True, "a robots.txt may always be asked for")
        if self._beyond:
            return RobotsVerdict(False, f"too many rules with a * inside (line {self._beyond})")
        pattern, fact = self._longest(path)
        pattern, fact = self._before(_rank(pattern, fact), path) or (pattern, fact)
        if not fact:
            return RobotsVerdict(True, "no rule matches")
        shown = pattern if len(pattern) <= _SHOWN else pattern[:_SHOWN] + "…"
        return RobotsVerdict(bool(fact & 1), f"{ALLOW if fact & 1 else DISALLOW}: {shown} (line {fact >> 1})")

    def _before(self, rank: int, path: str) -> tuple[str, int] | None:
        """The rule with a `*` inside that decides instead of one of `rank`. A star takes as little as it can, and what
        was found is not looked for again: nothing here goes back."""
        for other, head, parts, tail, pattern, fact in self._wild:
            if other <= rank:
                break
            if not path.startswith(head):
                continue
            at = len(head)
            for part in parts:
                at = path.find(part, at)
                if at < 0:
                    break
                at += len(part)
            else:
                if tail is None or (path.endswith(tail) and len(path) - len(tail) >= at):
                    return pattern, fact
        return None

    def _longest(self, path: str) -> tuple[str, int]:
        """Of those that are prefixes. A path ends with the `$` that only rules for its very end have."""
        table, query = self._table, path.encode() + b"$"
        at = bisect_right(range(self._count), query, key=self._prefix) - 1
        if at < 0:
            return "", 0
        before = self._prefix(at)
        # What both begin with: a prefix of the query that is in the table is one of the row before it, too.
        sizes = range(1, min(len(before), len(query)) + 1)
        common = bisect_left(sizes, True, key=lambda size: not query.startswith(before[:size]))
        while table[at * _COLUMNS + 1] - table[at * _COLUMNS] > common:
            at = table[at * _COLUMNS + 4]
            if at < 0:
                return "", 0
        row = table[at * _COLUMNS + 5] * _COLUMNS
        return self._text[table[row] : table[row + 2]].decode(), table[row + 3]

    def _prefix(self, at: int) -> bytes:
        row = at * _COLUMNS
        return self._text[self._table[row] : self._table[row + 1]]


def compiled(rules: Iterable[Rule]) -> Rulebook:
    prefixes: dict[str, tuple[str, int]] = {}
    wild: dict[str, int] = {}
    length = 0
    for rule in rules:
        for pattern in _patterns(rule):
            fact = rule.line << 1 | (rule.field == ALLOW)
            bare = pattern.removesuffix("$")
            prefix = bare.rstrip("*") if bare.endswith("*") else pattern  # what ends with a star ends anywhere
            if len(prefix) - prefix.count("*") > _LONGEST:
                continue  # no path matches
            if "*" in prefix:
                length += len(pattern) if pattern not in wild else 0
                wild[pattern] = _first(wild.get(pattern), fact)
                if len(wild) > WILD_RULES or length > WILD_BYTES:
                    return Rulebook(beyond=rule.line)
                continue
            known = prefixes.get(prefix)
            if known is None or len(known[0]) < len(pattern):
                prefixes[prefix] = pattern, fact
            elif len(known[0]) == len(pattern):
                prefixes[prefix] = known[0], _first(known[1], fact)
    rows = sorted(prefixes.items())
    text = "".join(pattern for _, (pattern, _) in rows).encode()
    tried = sorted(wild.items(), key=lambda item: _rank(*item), reverse=True)
    return Rulebook(text, _table(rows).tobytes(), tuple(tried))


def _first(known: int | None, fact: int) -> int:
    """Of two lines with the same pattern: the one that allows, else the one that came first."""
    return fact if known is None or (fact & 1 and not known & 1) else known


def _rank(pattern: str, fact: int) -> int:
    """The higher decides."""
    return len(pattern) << 1 | fact & 1


def _table(rows: list[tuple[str, tuple[str, int]]]) -> "array[int]":
    """Each row knows the longest other that is a prefix of its own, and who decides where it matches: itself, or one of
    those that has many stars."""
    shorter: list[int] = []
    decides: list[int] = []
    table, start = array("i"), 0
    for at, (prefix, (pattern, fact)) in enumerate(rows):
        while shorter and not prefix.startswith(rows[shorter[-1]][0]):
            shorter.pop()
        up = shorter[-1] if shorter else -1
        other = decides[up] if up >= 0 else at
        decides.append(at if _rank(pattern, fact) >= _rank(*rows[other][1]) else other)
        table.extend((start, start + len(prefix), start + len(pattern), fact, up, decides[at]))
        shorter.append(at)
        start += len(pattern)
    return table


def _patterns(rule: Rule) -> Iterator[str]:
    value = rule.value
    if value.startswith(("http://", "https://")):
        value = f"/{value}"
    if not value.startswith(("/", "*")):  # no path begins so
        return
    if _EVEN(value):
        pattern = value
    else:
        bare = value.removesuffix("$")
        pattern = _octets(bare.encode("utf-8", "surrogateescape"))
        if bare != value:  # it may be meant as it stands, too
            yield f"{pattern}%24"
            pattern = f"{pattern}$"
    yield pattern
    if rule.field == ALLOW and pattern.endswith(f"/{_INDEX}"):
        yield pattern.removesuffix(_INDEX) + "$"


def _parts(pattern: str, fact: int) -> _Wild:
    anchored = pattern.endswith("$")
    head, *parts = re.sub(r"\*+", "*", pattern.removesuffix("$")).split("*")
    return _rank(pattern, fact), head, parts[:-1] if anchored else parts, parts[-1] if anchored else None, pattern, fact


def _path(url: str) -> str:
    """Path and query, spelled as rules are."""
    even = _EVEN_URL(url)
    if even is not None:
        return even[1]
    url = url.partition("#")[0]
    authority = _AUTHORITY.match(url)
    path = _octets((url if authority is None else url[authority.end() :]).encode()).replace("*", "%2A")
    return path if path.startswith("/") else f"/{path}"


def _octets(text: bytes) -> str:
    """Percent-encoded as little as can be, so that two spellings of the same octets are one; but `/`, `%` and `*` are
    not what they are encoded."""
    return _ODD.sub(_spelled, text).decode()


def _spelled(found: re.Match[bytes]) -> bytes:
    octet = found[0]
    byte = int(octet[1:], 16) if len(octet) == 3 else octet[0]
    return b"%c" % byte if byte in _BARE else b"%%%02X" % byte
