"""Servers that a test makes up answer by answer, on loopback, with a log of their own that is the judge.

They run in a thread: the crawls of these tests are processes of their own, and are waited for.
"""

import asyncio
import itertools
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tests.fetcher.hostile import Hostile, Reply, Seen, answer, hostile_server, html

NO_ROBOTS = answer("404 Not Found", b"", ())


class OddWeb:
    """`routes` are of all addresses alike; what one host does otherwise is said with `at`."""

    def __init__(self, hostile: Hostile) -> None:
        self._hostile = hostile
        hostile.routes["/robots.txt"] = NO_ROBOTS

    def url(self, host: str, path: str = "/") -> str:
        return self._hostile.url(path, host)

    def serve(self, path: str, reply: Reply) -> None:
        self._hostile.routes[path] = reply

    def requests(self, host: str) -> list[Seen]:
        return [seen for seen in self._hostile.log if seen.host == host]

    def pages(self, host: str) -> list[str]:
        return [seen.target for seen in self.requests(host) if seen.target != "/robots.txt"]

    def by_host(self) -> dict[str, list[Seen]]:
        found = defaultdict(list)
        for seen in self._hostile.log:
            found[seen.host].append(seen)
        return found


@contextmanager
def odd_web() -> Iterator[OddWeb]:
    loop = asyncio.new_event_loop()
    ready: threading.Event = threading.Event()
    over = asyncio.Event()
    made: list[OddWeb] = []

    async def serve() -> None:
        async with hostile_server() as hostile:
            made.append(OddWeb(hostile))
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),), daemon=True)
    thread.start()
    try:
        assert ready.wait(10)
        yield made[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)
        loop.close()


def linking(*links: str) -> Reply:
    body = "".join(f'<p><a href="{link}">on</a></p>' for link in links)
    return html(body=f"<!doctype html><html><body>{body}</body></html>".encode())


def gaps(requests: Iterable[Seen]) -> list[float]:
    times = [seen.at for seen in requests]
    return [after - before for before, after in itertools.pairwise(times)]
