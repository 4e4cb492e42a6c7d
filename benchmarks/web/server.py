"""The web on a socket: HTTP/1.1 with keep-alive and pipelining, every address of 127.0.0.0/8, one process.

It is a judge, so it stamps and logs a request before anything else, and would rather end than go on unlogged.
"""

import asyncio
import random
import ssl
import time
from collections import Counter, deque
from collections.abc import Callable
from http import HTTPStatus
from typing import cast

from benchmarks.web.log import Request, RequestLog
from benchmarks.web.site import TEXT, Answer, Site

MAX_HEAD = 65_536  # bytes of a request line and its headers
MAX_PENDING = 64  # answers of one connection that wait; a client that pipelines more is read no further
PORTS = range(20_000, 32_000)  # below those that outgoing connections take, so that a restart finds its port free

_STATUS = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}


class BadRequest(Exception):
    def __init__(self, status: int, target: str = "") -> None:
        super().__init__(status)
        self.status, self.target = status, target


class Web:
    """What all connections share."""

    def __init__(self, site: Site, log: RequestLog, fail: Callable[[BaseException], None]) -> None:
        """`fail` is told what makes the log incomplete."""
        self.site, self.log, self.fail = site, log, fail
        self.connections = 0
        self._earlier: Counter[tuple[str, str]] = Counter()

    def answer(self, address: str, target: str, headers: dict[str, str]) -> Answer:
        key = address, target.partition("?")[0]
        answer = self.site.answer(address, target, headers, self._earlier[key])
        if answer.passing:
            self._earlier[key] += 1
        return answer


class Connection(asyncio.Protocol):
    _transport: asyncio.Transport

    def __init__(self, web: Web) -> None:
        self._web = web
        self._buffer = b""
        self._pending: deque[tuple[bytes, bool, int]] = deque()
        self._due = 0.0
        self._last = False
        """No more requests are taken: the connection closes after the answers that wait."""
        self._full = False
        self._address = ""
        self._number = 0

    # ---- called by the event loop ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # what uvloop makes is one, but not by name
        self._address = self._transport.get_extra_info("sockname")[0]
        if not self._address.startswith("127."):  # listening on 0.0.0.0 is the one way to have all of 127/8
            self._last = True
            self._transport.abort()
            return
        self._web.connections += 1
        self._number = self._web.connections

    def data_received(self, data: bytes) -> None:
        arrived = time.monotonic()
        self._buffer = self._buffer + data if self._buffer else data
        while not self._last and self._buffer:
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            if not found:
                self._check_start(arrived)
                return
            self._buffer = rest
            self._take(arrived, head)

    def pause_writing(self) -> None:
        self._full = True
        self._hold()

    def resume_writing(self) -> None:
        self._full = False
        self._hold()

    # ---- one request -----------------------------------------------------------------------------

    def _take(self, arrived: float, head: bytes) -> None:
        try:
            method, target, headers, keep = parse(head)
            host = headers["host"].rpartition(":")[0] or headers["host"]
            if host != self._address and host in self._web.site.hosts:  # sent down another host's connection
                raise BadRequest(421, target)
        except BadRequest as bad:
            self._refuse(arrived, bad)
            return
        answer = self._web.answer(self._address, target, headers)
        self._log(
            Request(
                arrived,
                self._address,
                target,
                answer.status,
                headers.get("user-agent"),
                headers.get("if-none-match"),
                headers.get("if-modified-since"),
                self._number,
                method,
            )
        )
        self._last = not keep or not self._web.site.spec.keep_alive or answer.drip > 0
        self._send(arrived, answer, with_body=method == "GET")

    def _check_start(self, arrived: float) -> None:
        """Garbage is told so at once: its sender may be waiting, and the end of a head may never come."""
        line, ended, _ = self._buffer.partition(b"\n")
        if len(self._buffer) > MAX_HEAD:
            self._refuse(arrived, BadRequest(431))
        elif not line[:1].isalpha() or (ended and line.count(b" ") != 2):
            self._refuse(arrived, BadRequest(400))

    def _refuse(self, arrived: float, bad: BadRequest) -> None:
        self._log(Request(arrived, self._address, bad.target, bad.status, conn=self._number, method=""))
        self._last = True
        self._buffer = b""
        self._send(arrived, Answer(bad.status, TEXT, HTTPStatus(bad.status).phrase.encode() + b"\n"))

    def _log(self, request: Request) -> None:
        try:
            self._web.log.write(request)
        except OSError as error:
            self._web.fail(error)

    # ---- answers, in the order of their requests -------------------------------------------------

    def _send(self, arrived: float, answer: Answer, with_body: bool = True) -> None:
        data = render(answer, with_body, self._last)
        if not answer.delay and not self._pending:
            self._write(data, self._last, answer.drip)
            return
        self._due = max(self._due, arrived + answer.delay)
        self._pending.append((data, self._last, answer.drip))
        loop = asyncio.get_running_loop()
        loop.call_later(max(0.0, self._due - time.monotonic()), self._write_next)
        self._hold()

    def _write_next(self) -> None:
        """One timer for each that waits, and the oldest goes: ties between timers cannot swap two answers."""
        self._write(*self._pending.popleft())
        self._hold()

    def _write(self, data: bytes, last: bool, drip: int) -> None:
        """What drips is the last of its connection, so nothing waits behind it."""
        if self._transport.is_closing():
            return
        piece = max(1, drip // 10)
        if drip and len(data) > piece:
            self._transport.write(data[:piece])
            asyncio.get_running_loop().call_later(piece / drip, self._write, data[piece:], last, drip)
            return
        self._transport.write(data)
        if last:
            self._transport.close()

    def _hold(self) -> None:
        if self._transport.is_closing():
            return
        if self._full or len(self._pending) > MAX_PENDING:
            self._transport.pause_reading()
        elif not self._transport.is_reading():
            self._transport.resume_reading()


def parse(head: bytes) -> tuple[str, str, dict[str, str], bool]:
    """→ method, target (path and query), headers, whether the connection goes on; or `BadRequest`."""
    lines = head.decode("latin-1").lstrip("\r\n").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0") or not words[0].isalpha():
        raise BadRequest(400)
    method, target, version = words
    headers: dict[str, str] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name[-1] in " \t" or name[0] in " \t":
            raise BadRequest(400, target)
        headers[name.lower()] = value.strip()
    if target.startswith(("http://", "https://")):  # the absolute form, RFC 9112 3.2.2
        target = "/" + target.partition("://")[2].partition("/")[2]
    if not target.startswith("/") or "#" in target or not target.isprintable():
        raise BadRequest(400, target)
    if version == "HTTP/1.1" and "host" not in headers:
        raise BadRequest(400, target)
    headers.setdefault("host", "")
    if method not in ("GET", "HEAD"):
        raise BadRequest(405, target)
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        raise BadRequest(413, target)  # no body is wanted, and an unread one would be taken for the next request
    token = headers.get("connection", "").lower()
    keep = "close" not in token and (version == "HTTP/1.1" or "keep-alive" in token)
    return method, target, headers, keep


def render(answer: Answer, with_body: bool, last: bool) -> bytes:
    fields = "".join([f"{name}: {value}\r\n" for name, value in answer.headers])
    length = "" if answer.status == 304 else f"Content-Length: {len(answer.body)}\r\n"
    close = "Connection: close\r\n" if last else ""
    head = f"{_STATUS[answer.status]}{fields}{length}{close}\r\n".encode("latin-1")
    return head + answer.body if with_body else head


async def listen(
    make: Callable[[], Connection], port: int, tls: ssl.SSLContext | None = None
) -> tuple[asyncio.Server, int]:
    """→ the server and its port; 0: any free one."""
    loop = asyncio.get_running_loop()
    for tries_left in range(20 if port == 0 else 1, 0, -1):
        chosen = port or random.choice(PORTS)
        try:
            server = await loop.create_server(make, "0.0.0.0", chosen, backlog=4096, start_serving=False, ssl=tls)
        except OSError:
            if tries_left == 1:
                raise
        else:
            return server, chosen
    raise AssertionError("unreachable")
