"""Settings that are texts with a form of their own: each is read here, for the checks at load and for those who use it.

A text that will not do is a `BadRule`, which says what would.
"""

import math
import re
from typing import NamedTuple

import can_ada

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_PARAM = re.compile(r"[^\s*&=#]+\*?|\*")
_NO_HOST = re.compile(r"[\s/\\?#@*%:]")
_ADDRESS = re.compile(r"\[[0-9A-Fa-f:.]+\]")
DEFAULT_TYPE = "page"
ALL_TYPES = "*"


class BadRule(ValueError):
    """Says what is allowed, in one printable line."""


def host_name(text: str) -> str:
    """As a URL has it: lower-case, IDNA, no dot at the end."""
    try:
        if _NO_HOST.search(text) and not _ADDRESS.fullmatch(text):
            raise ValueError
        host: str = can_ada.parse(f"http://{text}/").hostname
    except (ValueError, TypeError):
        host = ""
    host = host.removesuffix(".")
    if not host or host.endswith("."):
        raise BadRule("host names such as www.example.org, without scheme, port or *")
    return host


def param_name(text: str) -> str:
    """As it stands in a query: what could never be found there is a slip."""
    if not _PARAM.fullmatch(text):
        raise BadRule("names of parameters, a * only at their end, such as utm_*")
    return text


class SiteParams(NamedTuple):
    """`SITE keep a b` or `SITE drop x y*`."""

    site: str
    """A host; with a leading dot: a domain and everything below it."""
    keep: bool
    names: tuple[str, ...]


def site_params(text: str) -> SiteParams:
    allowed = "SITE keep NAME... or SITE drop NAME..., such as `www.example.org keep id` or `*.example.org drop s*`"
    site, *rest = text.split() or [""]
    if len(rest) < 2 or rest[0] not in ("keep", "drop") or any("*" in name[:-1] for name in rest[1:]):
        raise BadRule(allowed)
    below = site.startswith("*.")
    try:
        host = host_name(site[2:] if below else site)
    except BadRule:
        raise BadRule(allowed) from None
    return SiteParams("." + host if below else host, rest[0] == "keep", tuple(name.lower() for name in rest[1:]))


def page_type(text: str) -> tuple[str, str]:
    """NAME=PATTERN; whether the pattern is one is not looked at."""
    name, equals, pattern = text.partition("=")
    if not (equals and pattern and _NAME.fullmatch(name)):
        raise BadRule("NAME=PATTERN, such as issue=/issues/[0-9]+$")
    return name, pattern


def type_name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise BadRule(f"names of scope.page_types, or {DEFAULT_TYPE}")
    return text


def group_cap(text: str) -> tuple[str, int]:
    name, equals, number = text.partition("=")
    good_name = name == ALL_TYPES or _NAME.fullmatch(name)
    if not (equals and good_name and re.fullmatch(r"[0-9]{1,9}", number, re.ASCII)):
        raise BadRule("TYPE=N, such as issue=50, or *=N for all types together")
    return name, int(number)


class PoliteHost(NamedTuple):
    host: str
    delay: float | None
    """None: the crawl's own."""
    connections: int


def polite_host(text: str) -> PoliteHost:
    allowed = "HOST [delay=SECONDS] [connections=N], such as `intranet.example delay=0.1 connections=4`"
    name, *rest = text.split() or [""]
    given = dict(each.partition("=")[::2] for each in rest)
    if not given or len(given) < len(rest) or given.keys() - {"delay", "connections"}:
        raise BadRule(allowed)
    try:
        host = host_name(name)
        delay = float(given["delay"]) if "delay" in given else None
        connections = int(given.get("connections", "1"))
    except ValueError:  # BadRule is one
        raise BadRule(allowed) from None
    if delay is not None and not (math.isfinite(delay) and 0 <= delay <= 3600):
        raise BadRule("a delay from 0 to 3600 seconds")
    if not 1 <= connections <= 64:
        raise BadRule("from 1 to 64 connections")
    return PoliteHost(host, delay, connections)
