"""A small HTTP server on loopback that does what real servers do when they are broken, overloaded or malicious."""

import asyncio
import gzip
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import brotli  # type: ignore[import-untyped]
import zstandard

PAGE = b"<!doctype html><html><head><title>a page</title></head><body>" + b"some words " * 200 + b"</body></html>"


class Seen(NamedTuple):
    at: float
    host: str
    """The local address that was connected to."""
    target: str
    headers: dict[str, str]


Reply = Callable[[asyncio.StreamWriter, Seen], Awaitable[bool | None]]
"""Writes an answer; True: the connection stays open."""


class Hostile:
    def __init__(self) -> None:
        self.port = 0
        self.scheme = "http"
        self.log: list[Seen] = []
        self.routes: dict[str, Reply] = dict(ROUTES)
        self.open = self.most_open = 0
        """Requests that wait for their answer."""
        self.connected = 0

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = writer.get_extra_info("sockname")[0]
        self.connected += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                at = time.monotonic()
                pairs = (line.partition(":") for line in head[1:] if line)
                seen = Seen(at, host, head[0].split(" ")[1], {k.lower(): v.strip() for k, _, v in pairs})
                self.log.append(seen)
                self.open += 1
                self.most_open = max(self.most_open, self.open)
                try:
                    route = self.routes.get(seen.target.partition("?")[0], missing)
                    if not await route(writer, seen):
                        return
                finally:
                    self.open -= 1
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            return
        finally:
            self.connected -= 1
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()


@asynccontextmanager
async def hostile_server(address: str = "0.0.0.0", tls: ssl.SSLContext | None = None) -> AsyncIterator[Hostile]:
    hostile = Hostile()
    hostile.scheme = "https" if tls else "http"
    connections: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(hostile.serve(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(connected, address, 0, backlog=1024, ssl=tls)
    hostile.port = server.sockets[0].getsockname()[1]
    try:
        yield hostile
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


def answer(
    status: str = "200 OK", body: bytes = PAGE, headers: tuple[str, ...] = ("Content-Type: text/html; charset=utf-8",)
) -> Reply:
    async def reply(writer: asyncio.StreamWriter, seen: Seen) -> bool:
        lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
        writer.write("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
        await writer.drain()
        return True

    return reply


def raw(data: bytes) -> Reply:
    """Exactly these bytes, then the connection is closed."""

    async def reply(writer: asyncio.StreamWriter, seen: Seen) -> None:
        writer.write(data)
        await writer.drain()

    return reply


def html(*headers: str, body: bytes = PAGE) -> Reply:
    return answer(body=body, headers=("Content-Type: text/html", *headers))


missing = answer("404 Not Found", b"not here")


async def drip(writer: asyncio.StreamWriter, seen: Seen) -> None:
    """A byte now and then: every read timeout is met, the end never comes."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 100000\r\n\r\n")
    for _ in range(10_000):
        writer.write(b"x")
        await writer.drain()
        await asyncio.sleep(0.02)


async def silent(writer: asyncio.StreamWriter, seen: Seen) -> None:
    await asyncio.sleep(30)


async def reset(writer: asyncio.StreamWriter, seen: Seen) -> None:
    writer.transport.abort()


async def reset_body(writer: asyncio.StreamWriter, seen: Seen) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5000\r\n\r\nonly this")
    await writer.drain()
    await asyncio.sleep(0.02)
    writer.transport.abort()


async def endless_headers(writer: asyncio.StreamWriter, seen: Seen) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    while not writer.is_closing():
        writer.write(b"".join(b"X-%d: more\r\n" % number for number in range(1000)))
        await writer.drain()
        await asyncio.sleep(0)  # as above


async def endless(writer: asyncio.StreamWriter, seen: Seen) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
    while not writer.is_closing():
        writer.write(b"<p>more</p>" * 6000)
        await writer.drain()
        await asyncio.sleep(0)  # or a connection that is gone would not be noticed


async def conditional(writer: asyncio.StreamWriter, seen: Seen) -> bool | None:
    if seen.headers.get("if-none-match") == '"v1"':
        return await answer("304 Not Modified", b"", ('ETag: "v1"',))(writer, seen)
    return await html('ETag: "v1"', "Last-Modified: Tue, 01 Jul 2025 10:00:00 GMT")(writer, seen)


async def late_close(writer: asyncio.StreamWriter, seen: Seen) -> None:
    """Answers as if the connection stayed open, then closes it: the next request meets a dead one."""
    await html()(writer, seen)


def bomb(megabytes: int, encoding: str) -> bytes:
    zeros = bytes(1024 * 1024)
    match encoding:
        case "gzip":
            packer = zlib.compressobj(9, wbits=31)
            return b"".join(packer.compress(zeros) for _ in range(megabytes)) + packer.flush()
        case "br":
            packer = brotli.Compressor(quality=5)
            return b"".join([*(packer.process(zeros) for _ in range(megabytes)), packer.finish()])
        case "zstd":
            squeeze = zstandard.ZstdCompressor(level=3).compressobj()
            return b"".join(squeeze.compress(zeros) for _ in range(megabytes)) + squeeze.flush()
        case "gzip, gzip":
            return gzip.compress(bomb(megabytes, "gzip"))
        case _:
            raise ValueError(encoding)


ROUTES: dict[str, Reply] = {
    "/": html(),
    "/empty": answer("204 No Content", b"", ()),
    "/empty200": html(body=b""),
    "/gzip": html("Content-Encoding: gzip", body=gzip.compress(PAGE)),
    "/deflate": html("Content-Encoding: deflate", body=zlib.compress(PAGE)),
    "/rawdeflate": html("Content-Encoding: deflate", body=zlib.compress(PAGE, wbits=-15)),
    "/br": html("Content-Encoding: br", body=brotli.compress(PAGE)),
    "/zstd": html("Content-Encoding: zstd", body=zstandard.compress(PAGE)),
    "/stacked": html("Content-Encoding: gzip, br", body=brotli.compress(gzip.compress(PAGE))),
    "/badgzip": html("Content-Encoding: gzip", body=b"this is not gzip at all"),
    "/shortgzip": html("Content-Encoding: gzip", body=gzip.compress(PAGE)[:60]),
    "/unknown": html("Content-Encoding: rot13", body=b"cntr"),
    "/untyped": answer(headers=()),
    "/untypedpng": answer(body=b"\x89PNG\r\n\x1a\n" + bytes(2000), headers=()),
    "/png": answer(body=bytes(1000), headers=("Content-Type: image/png",)),
    "/bigpng": raw(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\nContent-Length: 90000000\r\n\r\n" + bytes(1000)),
    "/announced": raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 90000000\r\n\r\nx"),
    "/moved": answer("301 Moved Permanently", b"", ("Location: /there?b=2&a=1#part",)),
    "/found": answer("302 Found", b"gone there", ("Location: http://elsewhere.example/x",)),
    "/nowhere": answer("302 Found", b"", ()),
    "/mailto": answer("307 Temporary Redirect", b"", ("Location: mailto:a@example.org",)),
    "/choices": answer("300 Multiple Choices", b"", ()),
    "/notmodified": answer("304 Not Modified", b"", ()),
    "/gone": answer("410 Gone", b"gone"),
    "/teapot": answer("418 Teapot", bytes(100_000)),
    "/slowdown": answer("429 Too Many Requests", b"", ("Retry-After: 17",)),
    "/down": answer("503 Service Unavailable", b"", ("Retry-After: Fri, 31 Dec 2100 23:59:59 GMT",)),
    "/broken": answer("500 Internal Server Error", b"oops", ("Retry-After: soon",)),
    "/conditional": conditional,
    "/drip": drip,
    "/silent": silent,
    "/reset": reset,
    "/endless": endless,
    "/lateclose": late_close,
    "/garbage": raw(b"\x00\x01\x02 this is no HTTP\r\n\r\n"),
    "/hangup": raw(b""),
    "/banana": raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: banana\r\n\r\nabc"),
    "/short": raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5000\r\n\r\nonly this"),
    "/untilclose": raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + PAGE),
    "/chunked": raw(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    ),
    "/badchunk": raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n"),
    "/cutchunk": raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nabc"),
    "/twolengths": raw(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\nContent-Length: 7\r\n\r\nabcdefg"
    ),
    "/negative": raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: -5\r\n\r\nabc"),
    "/longer": raw(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 3\r\n\r\nabcdefg"),
    "/resetbody": reset_body,
    "/endlessheaders": endless_headers,
    "/thousandheaders": html(*(f"X-{i}: v" for i in range(1000))),
    "/hugeheader": raw(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2_000_000 + b"\r\n\r\n"),
    "/manyheaders": html(*(f"X-{i}: {'v' * 20}" for i in range(90))),
    "/oddheader": html("X-Name: caf\xe9", "Set-Cookie: a=b"),
    "/robots.txt": answer(body=b"User-agent: *\nDisallow: /private\n", headers=("Content-Type: text/plain",)),
    "/bigrobots": answer(body=b"# robots\n" * 100_000, headers=("Content-Type: text/plain",)),
    "/robotsmoved": answer("301 Moved Permanently", b"", ("Location: /robots.txt",)),
    "/robotsloop": answer("302 Found", b"", ("Location: /robotsloop",)),
    "/robotsprivate": answer("302 Found", b"", ("Location: http://10.1.2.3/robots.txt",)),
}
