"""Links as a crawl finds them, always the same ones: a URL is known by its host and number."""

import random
from collections.abc import Iterator

import xxhash

from headrace_schemas.messages import Link

PER_RECORD = 200
"""Links of one record: a frame of eight pages, twenty-five links each."""


def link(host: int, number: int) -> Link:
    url = f"https://www.site-{host}.example/section-{number % 17}/an-article-of-some-length-{number}.html"
    return Link(url, xxhash.xxh3_128_digest(url.encode()), 3, referrer=f"https://www.site-{host}.example/")


class Web:
    """`known` URLs spread over `hosts`, the first of each host first."""

    def __init__(self, hosts: int, seed: int = 1) -> None:
        self.hosts, self.known = hosts, 0
        self._random = random.Random(seed)

    def at(self, index: int) -> Link:
        return link(index % self.hosts, index // self.hosts)

    def new(self, count: int) -> Iterator[list[Link]]:
        """So many that are not known yet."""
        end = self.known + count
        while self.known < end:
            stop = min(end, self.known + PER_RECORD)
            yield [self.at(index) for index in range(self.known, stop)]
            self.known = stop

    def found(self, count: int, duplicates: float, near: float = 0.0) -> Iterator[list[Link]]:
        """So many as pages hold them. `near`: share of the duplicates that lead to one in a thousand (menus, front
        pages); the rest leads anywhere with the same chance, which is the worst that a cache can meet."""
        draw = self._random
        for start in range(0, count, PER_RECORD):
            links = []
            for _ in range(min(PER_RECORD, count - start)):
                if draw.random() >= duplicates:
                    links.append(self.at(self.known))
                    self.known += 1
                elif draw.random() < near:
                    links.append(self.at(draw.randrange(max(1, self.known // 1_000))))
                else:
                    links.append(self.at(draw.randrange(self.known)))
            yield links
