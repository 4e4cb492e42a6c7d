"""What a web is made of: one frozen struct. The same struct and port always give the same bytes.

Everything but the tree of pages and the links between hosts is off by default, so that the plain web is simple and
every page of it answers 200.
"""

import ipaddress
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0, le=1)]
Number = Annotated[float, Meta(ge=0)]

_PER_BLOCK = 250  # addresses used of each last octet: 1 to 250, so that none looks like a network or broadcast address
_NAMED = 5_000  # addresses in a certificate: clients take about 64 KB of it


class _Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Errors(_Part, frozen=True):
    """Shares of the pages. Those that never answer are taken from the leaves only: no page is lost behind them."""

    missing: Share = 0.0
    """404, always."""
    flaky: Share = 0.0
    """500 on the first request, then fine."""
    busy: Share = 0.0
    """503 with Retry-After on the first request, then fine."""
    broken: Share = 0.0
    """500, always."""


class Redirects(_Part, frozen=True):
    """Shares of the pages whose parent links to a redirect to them."""

    inside: Share = 0.0
    """One redirect on the same host."""
    across: Share = 0.0
    """One redirect, on another host."""
    chain: Share = 0.0
    """Two or three redirects in a row on the same host."""
    slash: Share = 0.0
    """The page's own path ends in a slash that the link lacks."""
    order: Share = 0.0
    """The link has the page's parameters in another order: the same page to whoever sorts them."""


class RobotsKinds(_Part, frozen=True):
    """Shares of the hosts; host 0 always allows everything, so that a crawl from there gets somewhere."""

    disallow: Share = 0.0
    """/private/ is disallowed but for /private/open/; every page links to one of the two."""
    delay: Share = 0.0
    """Crawl-delay."""
    missing: Share = 0.0
    """404: everything is allowed."""
    down: Share = 0.0
    """503, always: nothing may be fetched. Only hosts that no other is reached through."""


class WebSpec(_Part, frozen=True):
    seed: Count = 1
    hosts: Positive = 50
    port: Annotated[int, Meta(ge=0, le=65_535)] = 0
    """In every absolute link, and so part of the bytes. 0: not known yet."""
    base: Annotated[int, Meta(ge=0, le=255)] = 10
    """Second octet of host 0; host i is 127.base.x.y counted on."""
    pages: Positive = 40
    """HTML pages of each host, its front page among them."""
    size: Positive = 6_000
    """Bytes of a page, on average."""
    spread: Share = 0.5
    """Sizes are even between size * (1 - spread) and size * (1 + spread)."""
    children: Positive = 4
    """Links of a page to the pages that only it leads to."""
    extra: Count = 4
    """Links of a page to pages that one of its ancestors links to as well: they find nothing new."""
    cross: Count = 2
    """Links of a page to other hosts' front pages. 0: hosts know nothing of each other."""
    foreign: Share = 0.0
    """Share of the pages whose only parent is on another host."""
    latency_ms: Number = 0.0
    """Between a request's arrival and its answer."""
    hot_hosts: Count = 0
    """The first so many hosts have `hot_pages` pages."""
    hot_pages: Count = 0
    slow_hosts: Count = 0
    """The last so many hosts take `slow_ms` longer to answer."""
    slow_ms: Number = 0.0
    drip_hosts: Count = 0
    """So many hosts, just before the slow ones, send their answers at `drip_rate`."""
    drip_rate: Positive = 20
    """Bytes a second."""
    tls: bool = False
    """https: with a certificate, made at the start, that names the address of every host."""
    keep_alive: bool = True
    """False: a connection is good for one answer."""
    errors: Errors = Errors()
    retry_after: Positive = 1
    """Seconds that `busy` pages ask for."""
    redirects: Redirects = Redirects()
    robots: RobotsKinds = RobotsKinds()
    crawl_delay: Number = 1.0
    """Seconds that `delay` hosts ask for."""
    validators: bool = False
    """ETag and Last-Modified on pages, and 304 to who sends them back."""
    changing: Share = 0.0
    """Share of the pages whose bytes and validators depend on `revision`."""
    revision: Count = 0
    twins: Share = 0.0
    """Share of the pages that are linked in several spellings (tracking parameters, fragments)."""
    files: Share = 0.0
    """Share of the pages that link to a PDF and to a mail address."""
    gzip: bool = False
    """Compress for clients that take it."""

    def __post_init__(self) -> None:
        for part in (self.errors, self.redirects, self.robots):
            if sum(_shares(part)) > 1:
                raise ValueError(f"the shares of {type(part).__name__.lower()} add up to more than 1")
        if sum(_shares(self.errors)) + sum(_shares(self.redirects)) + self.twins > 1:
            raise ValueError("errors, redirects and twins add up to more than all pages")
        if self.hot_hosts and self.hot_pages < self.pages:
            raise ValueError("hot hosts cannot have fewer pages than others: set hot_pages")
        if self.slow_hosts + self.drip_hosts > self.hosts:
            raise ValueError("more slow and dripping hosts than hosts")
        if self.tls and self.hosts > _NAMED:
            raise ValueError(f"one certificate names every host, and more than {_NAMED} make it too long for clients")
        if int(self.first) + self.hosts // _PER_BLOCK * 256 + 256 > 2**31:  # 128.0.0.0
            raise ValueError("more hosts than 127.0.0.0/8 has addresses above its base")

    @property
    def first(self) -> ipaddress.IPv4Address:
        return ipaddress.IPv4Address(f"127.{self.base}.0.0")

    def address(self, host: int) -> str:
        block, last = divmod(host, _PER_BLOCK)
        return str(self.first + block * 256 + last + 1)

    def pages_of(self, host: int) -> int:
        return self.hot_pages if host < self.hot_hosts else self.pages

    def delay_of(self, host: int) -> float:
        """Seconds until a request is answered."""
        slow = self.slow_ms if host >= self.hosts - self.slow_hosts else 0.0
        return (self.latency_ms + slow) / 1000

    def drip_of(self, host: int) -> int:
        """Bytes a second that an answer comes with; 0: all at once."""
        first = self.hosts - self.slow_hosts - self.drip_hosts
        return self.drip_rate if first <= host < first + self.drip_hosts else 0

    def at(self, port: int) -> "WebSpec":
        return msgspec.structs.replace(self, port=port)


def _shares(part: Errors | Redirects | RobotsKinds) -> tuple[float, ...]:
    return msgspec.structs.astuple(part)


def shares(text: str, names: tuple[str, ...]) -> dict[str, Any]:
    """`0.3` shared out evenly among `names`, or `name=0.1,other=0.2` as it says."""
    if "=" not in text:
        return dict.fromkeys(names, float(text) / len(names))
    pairs = (pair.partition("=") for pair in text.split(","))
    return {name.strip(): float(value) for name, _, value in pairs}
