"""The log that judges: a line for every request, stamped when it arrived, written before it is answered.

One write(2) a line, nothing buffered: whatever a client has an answer for is in the file, whoever is killed when.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import msgspec


class Request(msgspec.Struct, frozen=True):
    t: float
    """time.monotonic() at arrival: comparable between all processes of one machine since it booted."""
    ip: str
    """The address asked: which host."""
    path: str
    """With its query."""
    status: int
    ua: str | None = None
    inm: str | None = None
    """If-None-Match."""
    ims: str | None = None
    """If-Modified-Since."""
    conn: int = 0
    """Number of the connection it came on, within one run of the server."""
    method: str = "GET"


class RequestLog:
    """Written by the server only, on its event loop."""

    def __init__(self, path: Path, *, append: bool = False) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | (0 if append else os.O_TRUNC), 0o644)
        self._encode = msgspec.json.Encoder().encode

    def write(self, request: Request) -> None:
        os.write(self._file, self._encode(request) + b"\n")

    def close(self) -> None:
        os.close(self._file)


def read(path: Path) -> list[Request]:
    """In order of arrival. A line still being written is left out."""
    decode = msgspec.json.Decoder(Request).decode
    return [decode(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


class Gap(NamedTuple):
    """Between the arrivals of two requests to one host, one after the other, whatever they asked for."""

    seconds: float
    ip: str
    path: str
    """Of the later one."""
    t: float
    """Arrival of the later one."""


def gaps(requests: Iterable[Request]) -> list[Gap]:
    """Smallest first."""
    arrivals: dict[str, list[Request]] = defaultdict(list)
    for request in requests:
        arrivals[request.ip].append(request)
    return sorted(
        Gap(later.t - earlier.t, ip, later.path, later.t)
        for ip, of_host in arrivals.items()
        for earlier, later in pairwise(of_host)
    )


def too_soon(found: Iterable[Gap], owed: Callable[[str], float], slack: float) -> list[Gap]:
    """Gaps under `slack` times what is owed to their host: arrivals are stamped late when the machine is busy."""
    return [gap for gap in found if gap.seconds < slack * owed(gap.ip)]
