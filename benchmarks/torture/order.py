"""How much torture: what a run was asked for, and the web that follows from it."""

from pathlib import Path

from msgspec import Struct

from benchmarks.web.spec import Errors, Redirects, RobotsKinds, WebSpec

_PAGES_OF_A_HOST = 150
"""Many of few hosts: what a host is owed makes the crawl last for as long as the faults take."""


class Order(Struct, frozen=True, kw_only=True):
    seed: int = 1
    kills: int = 30
    pages: int = 3_000
    seconds: float = 300.0
    """A crawl that takes longer has failed."""
    delay: float = 0.5
    """Of each host. Not less: a busy machine stamps late, and the gaps could not be judged."""
    peers: Path | None = None
    """Python that has Scrapy."""

    @property
    def web(self) -> WebSpec:
        """A little of everything that has a state of its own: redirects, failures, retries, what robots.txt forbids."""
        of_host = max(5, min(_PAGES_OF_A_HOST, self.pages // 12))
        return WebSpec(
            seed=self.seed,
            hosts=max(2, self.pages // of_host),
            pages=of_host,
            size=3_000,
            foreign=0.1,
            twins=0.05,
            errors=Errors(missing=0.03, flaky=0.02),
            redirects=Redirects(inside=0.04, across=0.04),
            robots=RobotsKinds(disallow=0.2, missing=0.1),
        )


SHORT = Order(kills=4, pages=160, seconds=60.0)
"""Seconds, for the tests: whether it works at all."""
