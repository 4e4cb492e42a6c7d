"""What a page costs, in the service and in its workers: `python -m tests.parser.measure`. Figures, not a test."""

import asyncio
import os
import random
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import uvloop

from headrace_parser.feed import Page
from headrace_parser.frames import ParsedReply
from headrace_parser.pool import ParserPool
from headrace_parser.service import PARSE
from headrace_schemas import codec
from tests.parser.fetched import fetched, running, settings

WORDS = ("lorem", "ipsum", "dolor", "sit", "amet", "consectetur", "adipiscing", "elit", "sed", "do", "eiusmod")


def html(size: int, seed: int = 1) -> bytes:
    """A page of about `size` bytes, a link for each 300 of them."""
    chance = random.Random(seed)
    parts = ["<!doctype html><html lang=en><head><meta charset=utf-8><title>A page</title></head><body>"]
    length = 0
    while length < size:
        number = len(parts)
        part = (
            f"<div class=x><p>{' '.join(chance.choices(WORDS, k=30))} <a href='/p/{number}?q={number}'>link</a>"
            " <span class=y>s</span></p><ul><li>one<li>two</ul></div>\n"
        )
        parts.append(part)
        length += len(part)
    return "".join(parts).encode()


class Customer:
    """Keeps its line short, as a lane does, until `total` replies are in."""

    def __init__(self, pool: ParserPool, values: Sequence[bytes]) -> None:
        self._pool, self._values, self._left = pool, iter(values), len(values)
        self._feed = pool.open(self._deliver, self._fail, merge=True)
        self.done = asyncio.Event()

    def more(self) -> None:
        if self._feed.waiting < 64:
            self._pool.put(self._feed, [Page(None, value) for value in islice(self._values, 64)])

    def _deliver(self, replies: Sequence[tuple[None, ParsedReply]]) -> None:
        assert all(reply.verdict == "ok" for _, reply in replies)
        self._left -= len(replies)
        self.more()
        if not self._left:
            self.done.set()

    def _fail(self, error: BaseException) -> None:
        raise error


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def measure(workers: int, size: int, pages: int) -> str:
    body = html(size)
    values = [codec.encode(fetched(body, f"http://site{n % 20}.test/{n}")) for n in range(pages)]
    async with running(settings(workers=workers, partitions=8), parse=PARSE) as pool:
        customer = Customer(pool, values)
        main, work, wall = time.process_time(), sum(map(cpu_of, pool.pids)), time.perf_counter()
        customer.more()
        await customer.done.wait()
        wall = time.perf_counter() - wall
        main = 1_000 * (time.process_time() - main) / pages
        work = 1_000 * (sum(map(cpu_of, pool.pids)) - work) / pages
    return (
        f"{workers} worker(s), {len(body):>6} bytes: {main:.3f} ms CPU a page in the service, {work:.2f} in the worker,"
        f" {pages / wall:.0f} pages/s"
    )


async def main() -> None:
    for size, pages in ((3_000, 8_000), (50_000, 1_500)):
        for workers in (1, 2):
            print(await measure(workers, size, pages), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
