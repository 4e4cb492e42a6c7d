"""Whether every host was left alone for as long as it was owed: the gaps between requests, from the history alone.

A gap is from the start of a request to the start of the next one to the same host, whatever they were for and whichever
process made them; it is held against the delay that the second of the two carried. So nothing has to be known of
restarts, retries or the number of fetchers: they show in the gaps or not at all. The redirect of another host's
robots.txt carries no delay of the host it leads to: that host is owed what the request before it was owed.
"""

import math
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

from msgspec import Struct

from headrace_storer.views import Asked

_RESOLUTION = 1e-6  # seconds: times of today, as doubles, lie a quarter of this apart, and a gap is between two of them


class Gap(Struct, frozen=True):
    seconds: float
    owed: float
    before: Asked
    after: Asked

    @property
    def share(self) -> float:
        """Of what was owed; infinite where nothing was."""
        return self.seconds / self.owed if self.owed > 0 else math.inf

    def shorter_than_owed(self, slack: float) -> bool:
        return self.seconds + slack < self.owed - _RESOLUTION


class HostProof(Struct, frozen=True):
    host: str
    requests: int
    short: int
    """Gaps shorter than owed."""
    smallest: float | None
    """Seconds between the two requests that lie closest together; None: there was only one."""
    tightest: Gap | None
    """The smallest share of what was owed. That is `smallest` unless the delay changed on the way."""

    @property
    def share(self) -> float:
        return math.inf if self.tightest is None else self.tightest.share


def prove(asked: Iterable[Asked], slack: float = 0.0) -> Iterator[HostProof]:
    """Of requests in order of (host, time); one host is held at a time, and of it one gap."""
    for host, requests in groupby(asked, key=attrgetter("host")):
        yield _prove_host(host, requests, slack)


def _prove_host(host: str, requests: Iterator[Asked], slack: float) -> HostProof:
    before = next(requests)
    count, short, owed = 1, 0, before.delay
    smallest: float | None = None
    tightest: Gap | None = None
    for after in requests:
        count += 1
        owed = after.delay if after.delay or after.kind != "hop" else owed
        gap = Gap(after.at - before.at, owed, before, after)
        short += gap.shorter_than_owed(slack)
        smallest = gap.seconds if smallest is None else min(smallest, gap.seconds)
        if tightest is None or (gap.share, gap.seconds) < (tightest.share, tightest.seconds):
            tightest = gap
        before = after
    return HostProof(host, count, short, smallest, tightest)
