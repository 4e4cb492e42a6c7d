"""The least HTTP/2 server there is (RFC 9113): every request gets the same page. It offers HTTP/1.1 too, by ALPN."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tests.fetcher.hostile import PAGE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, RESET, SETTINGS, PING = 0, 1, 3, 4, 6
END_STREAM, END_HEADERS, ACK = 1, 4, 1
HEAD = bytes([0x88, 0x5F, 9]) + b"text/html"  # HPACK: `:status: 200` by its number; content-type with a literal value


class Http2:
    def __init__(self) -> None:
        self.port = 0
        self.spoken: list[str] = []
        """What each connection agreed on."""
        self.streams: list[int] = []
        """One for each request over HTTP/2."""
        self.head = HEAD
        self.resets = 0
        """Requests that are cut off after their headers."""

    def url(self) -> str:
        return f"https://localhost:{self.port}/"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        spoken = writer.get_extra_info("ssl_object").selected_alpn_protocol() or ""
        self.spoken.append(spoken)
        with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            await (self._second if spoken == "h2" else self._first)(reader, writer)
        writer.close()

    async def _first(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(PAGE)}\r\n\r\n"
            writer.write(head.encode() + PAGE)

    async def _second(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(len(PREFACE)) == PREFACE
        writer.write(_frame(SETTINGS, 0, 0))
        while True:
            start = await reader.readexactly(9)
            kind, flags, stream = start[3], start[4], int.from_bytes(start[5:], "big")
            payload = await reader.readexactly(int.from_bytes(start[:3], "big"))
            if kind in (SETTINGS, PING) and not flags & ACK:
                writer.write(_frame(kind, ACK, 0, payload if kind == PING else b""))
            elif kind == HEADERS:
                self.streams.append(stream)
                writer.write(_frame(HEADERS, END_HEADERS, stream, self.head))
                if self.resets:
                    self.resets -= 1
                    writer.write(_frame(RESET, 0, stream, (2).to_bytes(4, "big")))  # INTERNAL_ERROR
                else:
                    writer.write(_frame(DATA, END_STREAM, stream, PAGE))


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


@asynccontextmanager
async def http2_server(tls: ssl.SSLContext) -> AsyncIterator[Http2]:
    tls.set_alpn_protocols(["h2", "http/1.1"])
    web = Http2()
    server = await asyncio.start_server(web.serve, "127.0.0.1", 0, ssl=tls)
    web.port = server.sockets[0].getsockname()[1]
    try:
        yield web
    finally:
        server.close()
