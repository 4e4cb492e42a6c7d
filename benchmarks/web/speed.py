"""`python -m benchmarks.web.speed`: how fast the web itself is, so that no crawler is measured against its limit."""

import argparse
import asyncio
import os
import re
import time
from typing import cast

from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import WebSpec

_LENGTH = re.compile(rb"Content-Length: (\d+)")


class Reader(asyncio.Protocol):
    """Asks for one page after the other on one connection, and reads no more of an answer than its length."""

    def __init__(self, requests: list[bytes], done: "asyncio.Future[None]") -> None:
        self._requests, self._done = requests, done
        self._left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # what uvloop makes is one, but not by name
        self._next()

    def data_received(self, data: bytes) -> None:
        if not self._left:
            found = _LENGTH.search(data)  # a head of this server always comes in one piece
            if found is None:
                self._done.set_exception(ConnectionError(repr(data[:80])))
                return
            self._left = int(found[1]) + data.index(b"\r\n\r\n") + 4
        self._left -= len(data)
        if self._left == 0:
            self._next()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._done.done():
            self._done.set_exception(ConnectionError("the server closed the connection"))

    def _next(self) -> None:
        if self._requests:
            self._transport.write(self._requests.pop())
        else:
            self._done.set_result(None)
            self._transport.close()


async def load(web: RunningWeb, pages: int, connections: int) -> float:
    """→ seconds for `pages` requests, spread over all hosts and over `connections` connections."""
    loop, spec = asyncio.get_running_loop(), web.spec
    waiting = []
    started = time.monotonic()
    for number in range(connections):
        address = spec.address(number % spec.hosts)
        asked = (f"/p/{1 + (number + page) % (spec.pages - 1)}" for page in range(pages // connections))
        requests = [f"GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: speed\r\n\r\n".encode() for path in asked]
        done: asyncio.Future[None] = loop.create_future()
        await loop.create_connection(lambda requests=requests, done=done: Reader(requests, done), address, spec.port)  # type: ignore[misc]
        waiting.append(done)
    await asyncio.gather(*waiting)
    return time.monotonic() - started


def cpu_of(process: int) -> float:
    """CPU seconds it has used (Linux)."""
    with open(f"/proc/{process}/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.web.speed")
    parser.add_argument("--pages", type=int, default=40_000, help="requests in all")
    parser.add_argument("--size", type=int, default=3_000)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--connections", type=int, default=100)
    options = parser.parse_args()
    with RunningWeb(WebSpec(hosts=options.hosts, pages=400, size=options.size)) as web:
        before = cpu_of(web.pid)
        seconds = asyncio.run(load(web, options.pages, options.connections))
        cpu = cpu_of(web.pid) - before
        answered = len(web.requests())
    print(
        f"{answered} pages of {options.size} B in {seconds:.2f} s: {answered / seconds:,.0f} pages/s; "
        f"{cpu:.2f} s CPU: {answered / cpu:,.0f} pages per core and second"
    )


if __name__ == "__main__":
    main()
