"""Which URLs the crawl wants at all, by the crawl-wide settings: deterministic, so `explain` can judge again."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from headrace_frontier import priority
from headrace_frontier.page_types import PageTypes
from headrace_schemas.errors import UsageError
from headrace_schemas.messages import CrawlSettings
from headrace_schemas.patterns import BadPattern, Patterns
from headrace_schemas.rules import BadRule, host_name, polite_host
from headrace_schemas.urls import MAX_URL, is_address, registrable_domain

_CACHED = 20_000  # as many as hosts are: `Tuning.hosts_cached`
# Host and port as found. Anything else was not written by our own code: a client might read another host in it.
_AUTHORITY = re.compile(r"([^\x00-\x20\x7f-\U0010ffffA-Z#%/:<>?@\[\\\]^|]+|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?")
_NO_OPINION: tuple[float | None, int] = (None, 1)


class Verdict(NamedTuple):
    allowed: bool
    rule: str
    """The setting that decided, for people."""
    reason: str = ""
    """A word; empty if allowed."""
    circumstance: bool = False
    """Refused for how it was found, not for what it is: remembered, and judged again if found in a better way."""


_NO_HTTP = Verdict(False, "only http and https are crawled", "scheme")
_TOO_LONG = Verdict(False, f"URLs are at most {MAX_URL} characters", "too_long")
_USERINFO = Verdict(False, "a URL with a user name is not crawled", "userinfo")
_MALFORMED = Verdict(False, "a URL needs a host, spelt as URLs are", "malformed")
_BAD_PORT = Verdict(False, "ports are numbers from 1 to 65535", "bad_port")
_NOT_LISTED = Verdict(False, "scope.allow has no pattern that matches", "not_in_allowlist")


class Policy:
    """One per revision of the settings."""

    def __init__(self, settings: CrawlSettings) -> None:
        self.settings = settings
        self._authorities: dict[str, Verdict] = {}
        try:
            self._build(settings)
        except (BadRule, BadPattern) as error:  # checked when they were given: another release took them
            raise UsageError(f"the settings of this crawl cannot be used: {error}") from None

    def _build(self, settings: CrawlSettings) -> None:
        self._roots = frozenset(settings.scope_roots)
        self._hosts = frozenset(map(host_name, settings.scope_hosts))
        self._domains = frozenset(map(host_name, settings.scope_domains))
        self._denied_hosts = frozenset(map(host_name, settings.scope_deny_hosts))
        self._deny, self._allow = Patterns(settings.scope_deny), Patterns(settings.scope_allow)
        self._denials = [Verdict(False, f"scope.deny has {text}", "denied_pattern") for text in self._deny.texts]
        self._grants = [*(Verdict(True, f"scope.allow has {text}") for text in self._allow.texts), _NOT_LISTED]
        self._patterned = bool(self._deny or self._allow)
        self._types = PageTypes(settings)
        self._listings = Patterns(settings.low_priority)
        self._polite = {rule.host: (rule.delay, rule.connections) for rule in map(polite_host, settings.polite_hosts)}
        self.group_total = self._types.total
        """Pages of one group, of all types together; 0: no limit."""

    # ---- whether it is crawled -------------------------------------------------------------------

    def judge(self, url: str, depth: int = 0, hop: int = 0, max_hops: int = 5) -> Verdict:
        static = self.static(url)
        return self.way(depth, hop, max_hops) or static if static.allowed else static

    def static(self, url: str) -> Verdict:
        """What the URL is: scheme, length, host, patterns."""
        return self.read(url)[0]

    def read(self, url: str) -> tuple[Verdict, str]:
        """`static`, and the host and port that it met on the way."""
        if not url.startswith(("http://", "https://")):
            return _NO_HTTP, ""
        if len(url) > MAX_URL:
            return _TOO_LONG, ""
        start = 7 if url[4] == ":" else 8
        end = url.find("/", start)
        authority = url[start:] if end < 0 else url[start:end]
        verdict = self._authorities.get(authority) or self.host(authority)
        return (self._by_pattern(url, verdict) if self._patterned and verdict.allowed else verdict), authority

    def _by_pattern(self, url: str, verdict: Verdict) -> Verdict:
        if self._denials and (number := self._deny.first(url)) < len(self._denials):
            return self._denials[number]
        return self._grants[self._allow.first(url)] if self._allow else verdict

    def host(self, host: str) -> Verdict:
        """With its port, if it has one. Remembered by the whole of it: so a forged one is taken apart only once."""
        verdict = self._authorities.get(host)
        if verdict is None:
            if len(self._authorities) >= _CACHED:
                self._authorities.clear()
            verdict = self._authorities[host] = self._authority(host)
        return verdict

    def way(self, depth: int, hop: int, max_hops: int = 5) -> Verdict | None:
        """How it was found: None if nothing speaks against that."""
        if depth > self.settings.max_depth:
            return Verdict(False, f"limits.max_depth is {self.settings.max_depth}, this is {depth}", "depth", True)
        if hop > max_hops:
            return Verdict(False, f"at most {max_hops} redirects are followed", "hop", True)
        return None

    def _authority(self, text: str) -> Verdict:
        if "@" in text:
            return _USERINFO
        found = _AUTHORITY.fullmatch(text)
        if found is None:
            return _BAD_PORT if ":" in text and _AUTHORITY.fullmatch(text.rpartition(":")[0]) else _MALFORMED
        if found[2] is not None and not 0 < int(found[2]) <= 65_535:
            return _BAD_PORT
        name = found[1].rstrip(".")
        return self._scope(name) if name else _MALFORMED

    def _scope(self, host: str) -> Verdict:
        if denied := _first(host, self._denied_hosts):
            return Verdict(False, f"scope.deny_hosts has {denied}", "subdomain_denied")
        mode = self.settings.scope_mode
        if mode == "all":
            return Verdict(True, "scope.mode is all")
        root = host if mode == "host" else registrable_domain(host)
        if root in self._roots:
            return Verdict(True, f"scope.mode is {mode} and {root} is a seed's")
        if host in self._hosts:
            return Verdict(True, f"scope.hosts has {host}")
        if domain := _first(host, self._domains):
            return Verdict(True, f"scope.domains has {domain}")
        also = " and in neither scope.hosts nor scope.domains" if self._hosts or self._domains else ""
        return Verdict(False, f"scope.mode is {mode} and {root} is no seed's{also}", "host_not_allowed")

    # ---- what it is, once it is ------------------------------------------------------------------

    def page_type(self, url: str) -> str:
        return self._types.of(url)

    def stored(self, page_type: str) -> bool:
        return self._types.stored(page_type)

    def group(self, url: str) -> str:
        return self._types.group(url)

    def group_cap(self, page_type: str) -> int:
        return self._types.cap(page_type)

    def polite(self, host: str) -> tuple[float | None, int]:
        """The delay of its own that a host has, and how many requests it may see at once."""
        return self._polite.get(host, _NO_OPINION)

    def priority(self, url: str, depth: int, is_seed: bool = False) -> int:
        return priority.score(url, depth, is_seed, self._listings)


def _with_parents(host: str) -> Iterator[str]:
    """a.b.test, b.test, test. An address has no parents."""
    yield host
    if not is_address(host):
        while "." in host:
            host = host.partition(".")[2]
            yield host


def _first(host: str, known: frozenset[str]) -> str:
    """The host itself or its nearest parent that is known. Lists are mostly empty: then nothing is taken apart."""
    return next((name for name in _with_parents(host) if name in known), "") if known else ""
