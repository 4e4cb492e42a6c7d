"""URLs in their two forms, and the partition they live in. One function for everyone who produces a link.

*As found* is absolute, WHATWG-serialised and without fragment: it is fetched, shown and kept. *Canonical* is cleaned
and sorted, and exists only to be hashed into the dedupe key: fetching it would lose pages of sites that care about a
slash or the order of parameters.
"""

import ipaddress
import re
from functools import lru_cache
from typing import NamedTuple

import can_ada
import xxhash
from msgspec import Struct
from publicsuffixlist import PublicSuffixList

from headrace_schemas.params import Dropped, Sites

_KNOWN, _KNOWN_LENGTH = 8_192, 400  # links remembered, about 4 MB; characters of one that is worth it
MAX_URL = 2_083  # characters; longer ones are traps or data, and break other people's tools

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.\-]*):")
_TRIM = "".join(map(chr, range(0x21)))  # C0 controls and space, as WHATWG strips them
_BREAKS = str.maketrans("", "", "\t\n\r")  # WHATWG drops these anywhere; hrefs broken over lines are common
# Not right behind a stray "%" or "%4": decoding there would make an escape that nobody wrote, and not the last one.
_PERCENT = re.compile(r"(?<!%)(?<!%[0-9a-fA-F])%([0-9a-fA-F]{2})")
# Java's session in the path. Behind a dot it stays: without it "/..;jsessionid=1" would be a step up.
_SESSION = re.compile(r"(?<!\.)(?:;jsessionid=[^/;]*)+", re.IGNORECASE)
_DOTS = re.compile(r"/(?:\.|%2e){1,2}(?=[/?]|\Z)", re.IGNORECASE)
_PORT = re.compile(r"(https?:[/\\]*[^/\\?#]*):([^/\\?#:\]]*)", re.IGNORECASE)
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


class BadUrl(ValueError):
    """`reason` is a word: scheme | userinfo | too_long | bad_port | unparsable | no_host."""

    def __init__(self, reason: str, url: str) -> None:
        super().__init__(f"{reason}: {url[:200]!r}")
        self.reason = reason


class Found(NamedTuple):
    url: str
    key: bytes


def as_found(raw: str, base: str = "") -> str:
    """The as-found form of `raw`, relative to `base` (as found too) if given; `BadUrl` if never fetchable."""
    text = _joined(raw, base)
    if len(text) > 4 * MAX_URL:
        raise BadUrl("too_long", text)
    scheme = _SCHEME.match(text)
    if scheme is None:
        raise BadUrl("unparsable", raw)
    if scheme[1].lower() not in ("http", "https"):
        raise BadUrl("scheme", raw)
    try:
        parsed = can_ada.parse(text)
    except (ValueError, TypeError):  # TypeError: lone surrogates
        raise BadUrl("bad_port" if _parses_without_port(text) else "unparsable", raw) from None
    if parsed.has_credentials():
        raise BadUrl("userinfo", raw)
    host: str = parsed.hostname
    if host.endswith("."):  # the same name to DNS; left there, one server would have two clocks and two scopes
        host = parsed.hostname = host[:-1]
        if host.endswith("."):
            raise BadUrl("unparsable", raw)
    if not host:
        raise BadUrl("no_host", raw)
    href: str = parsed.href
    href = href.partition("#")[0]
    if "/." in href or "/%2" in href:
        href = _without_dots(href)
    if ":0" in href and origin_of(href).endswith(":0"):
        raise BadUrl("bad_port", raw)
    if len(href) > MAX_URL:
        raise BadUrl("too_long", raw)
    return href


def _without_dots(href: str) -> str:
    """Dot segments taken out as WHATWG says. The parser forgets them behind a name that begins with a dot (ada 3.0.0
    leaves "/.b/../c" as it is): what robots.txt forbids would have a spelling that no rule of it matches."""
    path, question, query = href.partition("?")
    if _DOTS.search(path) is None:
        return href
    origin = origin_of(path)
    kept: list[str] = []
    segments = path[len(origin) + 1 :].split("/")
    for segment in segments:
        dots = segment.lower().replace("%2e", ".")
        if dots == "..":
            del kept[-1:]
        elif dots != ".":
            kept.append(segment)
    if dots in (".", ".."):
        kept.append("")
    return f"{origin}/{'/'.join(kept)}{question}{query}"


def _joined(raw: str, base: str) -> str:
    text = raw.strip(_TRIM)
    if "\n" in text or "\t" in text or "\r" in text:
        text = text.translate(_BREAKS)
    return _absolute(text, base) if base else text


def _parses_without_port(text: str) -> bool:
    port = _PORT.match(text)
    try:
        return port is not None and bool(can_ada.parse(port[1] + text[port.end() :]).hostname)
    except (ValueError, TypeError):
        return False


def _absolute(href: str, base: str) -> str:
    """`href` made absolute by text alone (the parser normalises after): 1 µs where a general join takes 18."""
    scheme = _SCHEME.match(href)
    if scheme is not None:
        if scheme[1].lower() != base.partition(":")[0]:
            return href
        href = href[scheme.end() :]  # "http:page" and "http:/page" are relative where the schemes agree
    first = href[:1]
    start = base.index("//") + 2
    if first in ("/", "\\"):
        if href[1:2] in ("/", "\\"):
            return base[: start - 2] + href
        return base[: base.index("/", start)] + href
    path, _, _ = base.partition("#")
    if not href or first == "#":
        return path
    path, _, _ = path.partition("?")
    if first == "?":
        return path + href
    return path[: path.rindex("/") + 1] + href


class CanonicalRules(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What counts as the same page. Fixed for the life of a workspace: the keys of all known URLs depend on it."""

    drop_params: tuple[str, ...] = (
        *("utm_*", "gclid", "gclsrc", "gbraid", "wbraid", "dclid", "gad_source", "gad_campaignid", "srsltid"),
        *("_ga", "_gl", "_gac", "fbclid", "fb_action_ids", "fb_action_types", "fb_source", "igshid", "igsh"),
        *("msclkid", "ttclid", "twclid", "li_fat_id", "rdt_cid", "epik", "sccid", "yclid", "ysclid", "_openstat"),
        *("mc_cid", "mc_eid", "_hsenc", "_hsmi", "__hssc", "__hstc", "__hsfp", "hsctatracking", "hsa_*", "mkt_tok"),
        *("oly_*", "vero_*", "pk_*", "mtm_*", "matomo_*", "piwik_*", "s_kwcid", "ef_id", "irclickid", "cjevent"),
        *("wickedid", "tblci", "spm", "phpsessid", "jsessionid", "aspsessionid*", "cfid", "cftoken", "sid"),
        *("sessionid", "ref", "ref_src", "ref_url", "source"),
    )
    """Names (a trailing * matches the rest) of parameters that do not change the page; case is ignored."""
    sort_params: bool = True
    """Whether ?b=2&a=1 is the same page as ?a=1&b=2."""
    drop_trailing_slash: bool = False
    """Whether /a/ is the same page as /a."""
    sites: tuple[str, ...] = ()
    """SITE keep NAME... (nothing else matters there) or SITE drop NAME... (beside `drop_params`); *.SITE: a domain."""


class Canonicaliser:
    """as found → dedupe key, by `rules`."""

    def __init__(self, rules: CanonicalRules | None = None) -> None:
        self.rules = rules or CanonicalRules()
        self._everywhere = Dropped(self.rules.drop_params)
        self._sites = Sites(self.rules.sites, self.rules.drop_params) if self.rules.sites else None
        self._known = lru_cache(_KNOWN)(self._found)

    @property
    def fingerprint(self) -> str:
        """Names the rules and their implementation; a workspace made under another one is refused."""
        return "1:" + xxhash.xxh3_64_hexdigest(repr(self.rules).encode())

    def find(self, raw: str, base: str = "") -> Found:
        """Remembers the last thousands: every page of a site repeats the links of its menu."""
        text = _joined(raw, base)
        return self._known(text) if len(text) <= _KNOWN_LENGTH else self._found(text)

    def _found(self, text: str) -> Found:
        url = as_found(text)
        return Found(url, self.key(url))

    def key(self, url: str) -> bytes:
        return xxhash.xxh3_128_digest(self.canonical(url).encode())

    def canonical(self, url: str) -> str:
        """`url` must be as found. Idempotent: canonical(canonical(u)) == canonical(u)."""
        path, question, query = url.partition("?")
        if "%" in url:
            path = _PERCENT.sub(_normal_escape, path)
            query = _PERCENT.sub(_normal_escape, query)
        dropped = self._everywhere if self._sites is None else self._sites.of(host_of(url))
        if ";" in path and dropped["jsessionid"]:
            start = path.index("/", 8)  # a host may hold anything, too
            path = path[:start] + _SESSION.sub("", path[start:])
        if self.rules.drop_trailing_slash and path.endswith("/") and path.count("/") > 3:
            path = path.rstrip("/") if path.rstrip("/").count("/") >= 3 else path
        if not question:
            return path
        pairs = [pair for pair in query.split("&") if pair and not dropped[pair.partition("=")[0]]]
        if self.rules.sort_params:
            pairs.sort()
        return f"{path}?{'&'.join(pairs)}" if pairs else path


def _normal_escape(match: re.Match[str]) -> str:
    value = int(match[1], 16)
    return chr(value) if value in _UNRESERVED else match[0].upper()


# ---- parts of an as-found URL, by text: it is normalised already ---------------------------------


def origin_of(url: str) -> str:
    """Scheme, host and port: what a robots.txt speaks for."""
    end = url.find("/", url.index("//") + 2)
    return url if end < 0 else url[:end]


def host_of(url: str) -> str:
    """Host name without port; an IPv6 address keeps its brackets."""
    authority = origin_of(url)[url.index("//") + 2 :]
    if authority.startswith("["):
        return authority[: authority.index("]") + 1]
    return authority.partition(":")[0]


_suffixes = PublicSuffixList()


@lru_cache(maxsize=65_536)
def registrable_domain(host: str) -> str:
    """`example.co.uk` of `a.b.example.co.uk`; an address, or a name that is itself a suffix, stands for itself."""
    if is_address(host):
        return host
    found: str | None = _suffixes.privatesuffix(host.rstrip("."))
    return found or host


def is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


# ---- partitions ----------------------------------------------------------------------------------


class Partitioner:
    """URL → politeness key → partition; the same on every topic, fixed for the life of a workspace."""

    def __init__(self, partitions: int, by: str = "host") -> None:
        self.partitions, self.by = partitions, by
        self._cached = lru_cache(maxsize=65_536)(self._partition)

    def politeness_key(self, url: str) -> str:
        host = host_of(url)
        return registrable_domain(host) if self.by == "domain" else host

    def partition(self, url: str) -> int:
        return self._cached(self.politeness_key(url)) if self.partitions > 1 else 0

    def _partition(self, key: str) -> int:
        return (murmur2(key.encode()) & 0x7FFFFFFF) % self.partitions


def murmur2(data: bytes) -> int:
    """Kafka's own default hash, so that any client computes our partitions."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    length = len(data)
    h = (0x9747B28C ^ length) & mask
    whole = length & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & mask
        k = (k ^ (k >> 24)) * m & mask
        h = (h * m & mask) ^ k
    if length & 3:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ (h >> 13)) * m & mask
    return h ^ (h >> 15)
