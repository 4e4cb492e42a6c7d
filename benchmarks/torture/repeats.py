"""Which requests were made twice, and whether a fault lies between the two: without one there is no excuse."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct

from benchmarks.torture.storm import Met
from benchmarks.web.expected import identity
from benchmarks.web.log import Request

SETTLING = 2.0
"""Seconds after a process is back in which the group may still hand partitions over."""


class Repeat(Struct, frozen=True):
    url: str
    before: float
    after: float
    excuses: tuple[int, ...]
    """Numbers of the faults between the two."""


class Repeats(Struct, frozen=True):
    times: dict[int, int]
    """Requests that were needed once → of how many URLs, robots.txt among them."""
    found: list[Repeat]

    @property
    def unexplained(self) -> list[Repeat]:
        return [repeat for repeat in self.found if not repeat.excuses]

    @property
    def most_of_one_fault(self) -> int:
        """Each repeat counts for the latest fault that explains it."""
        return max(Counter(repeat.excuses[-1] for repeat in self.found if repeat.excuses).values(), default=0)

    def histogram(self) -> str:
        return ", ".join(f"{count:,} × {times}" for times, count in sorted(self.times.items()))


def repeats(
    requests: Iterable[Request], met: Sequence[Met], port: int, same: Callable[[str], str] = identity
) -> Repeats:
    """`met`: the faults that can be an excuse. `same`: what a URL is told apart by.

    A request after a 5xx is a retry, and repeats nothing. But a request that failed may be what was done again, and its
    retry then comes on top: the fault lies after the failure.
    """
    by_url: dict[str, list[Request]] = defaultdict(list)
    for request in requests:
        by_url[same(f"http://{request.ip}:{port}{request.path}")].append(request)
    times: Counter[int] = Counter()
    found = []
    for url, asked in by_url.items():
        again = [(_since(asked, i), later.t) for i, later in enumerate(asked) if i and asked[i - 1].status < 500]
        times[1 + len(again)] += 1
        found += [Repeat(url, before, after, _between(met, before, after)) for before, after in again]
    return Repeats(dict(times), found)


def _since(asked: Sequence[Request], number: int) -> float:
    """When the request before this one was made, or the one before that, if it failed."""
    failed = number >= 2 and asked[number - 2].status >= 500
    return asked[number - 2 if failed else number - 1].t


def _between(met: Sequence[Met], before: float, after: float) -> tuple[int, ...]:
    return tuple(number for number, fault in enumerate(met) if before <= fault.back + SETTLING and after >= fault.began)
