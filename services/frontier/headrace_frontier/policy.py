"""Which URLs the crawl wants at all, by the crawl-wide settings: deterministic, so `explain` can judge again."""

from typing import NamedTuple

from headrace_schemas.messages import CrawlSettings
from headrace_schemas.urls import MAX_URL, host_of, registrable_domain

_HOSTS_CACHED = 10_000


class Verdict(NamedTuple):
    allowed: bool
    rule: str
    """The setting that decided, for people."""
    reason: str = ""
    """A word; empty if allowed."""
    circumstance: bool = False
    """Refused for how it was found, not for what it is: remembered, and judged again if found in a better way."""


class Policy:
    """One per revision of the settings."""

    def __init__(self, settings: CrawlSettings) -> None:
        self.settings = settings
        self._roots = frozenset(settings.scope_roots)
        self._hosts: dict[str, Verdict] = {}

    def judge(self, url: str, depth: int = 0, hop: int = 0, max_hops: int = 5) -> Verdict:
        static = self.static(url)
        return self.way(depth, hop, max_hops) or static if static.allowed else static

    def static(self, url: str) -> Verdict:
        """What the URL is: scheme, length, host."""
        if not url.startswith(("http://", "https://")):
            return Verdict(False, "only http and https are crawled", "scheme")
        if len(url) > MAX_URL:
            return Verdict(False, f"URLs are at most {MAX_URL} characters", "too_long")
        try:
            host = host_of(url)
        except ValueError:  # an open bracket
            host = ""
        if not host:
            return Verdict(False, "a URL needs a host", "malformed")
        return self.host(host)

    def host(self, host: str) -> Verdict:
        verdict = self._hosts.get(host)
        if verdict is None:
            if len(self._hosts) >= _HOSTS_CACHED:
                self._hosts.clear()
            verdict = self._hosts[host] = self._scope(host)
        return verdict

    def way(self, depth: int, hop: int, max_hops: int = 5) -> Verdict | None:
        """How it was found: None if nothing speaks against that."""
        if depth > self.settings.max_depth:
            return Verdict(False, f"limits.max_depth is {self.settings.max_depth}, this is {depth}", "depth", True)
        if hop > max_hops:
            return Verdict(False, f"at most {max_hops} redirects are followed", "hop", True)
        return None

    def _scope(self, host: str) -> Verdict:
        mode = self.settings.scope_mode
        if mode == "all":
            return Verdict(True, "scope.mode is all")
        name = host if mode == "host" else registrable_domain(host)
        if name in self._roots:
            return Verdict(True, f"scope.mode is {mode} and {name} is a seed's")
        return Verdict(False, f"scope.mode is {mode} and {name} is no seed's", "scope")
