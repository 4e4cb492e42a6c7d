"""One connection that speaks HTTP/1.1, parsed by llhttp: one exchange at a time, each bounded in every way.

asyncio calls `Connection` as its protocol, httptools as its parser's listener; the transport calls `ask` and
`look`, the reader of an answer its `Exchange`.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import httptools

from headrace_fetcher.exchange import Exchange
from headrace_fetcher.faults import TransportFault, WentStale
from headrace_fetcher.mending import mended
from headrace_runtime.clock import Clock

HEAD = 64 * 1024  # bytes of a head; of whatever else is not body between two pieces of it (chunk extensions, trailers)
FIELDS = 256  # headers of an answer
INTERIM = 8  # 1xx answers before the answer
RECEIVE = 64 * 1024  # bytes taken from a socket at once, of all connections into the same place
BUFFER = 64 * 1024  # bytes of body held for a reader that is busy, and what was taken at once on top

_LENIENT = {
    "lenient_headers": True,
    "lenient_keep_alive": True,
    "lenient_optional_cr_before_lf": True,
    "lenient_spaces_after_chunk_size": True,
}
"""What browsers put up with in an answer, and nothing that changes where it ends. An answer that follows an interim one
counts although that one closes the connection by its words or its version; what follows any other does not."""


class Connection(asyncio.BufferedProtocol):
    def __init__(
        self,
        clock: Clock,
        buffer: memoryview,
        free: Callable[["Connection"], None],
        lost: Callable[["Connection"], None],
    ) -> None:
        """`buffer`: where what comes is put; others may use it, too, as it is read at once. `free`: called when it can
        carry the next request; `lost`: once, when it is gone."""
        self._clock, self._buffer, self._free, self._lost = clock, buffer, free, lost
        self._loop = asyncio.get_running_loop()
        self._parser = self._new_parser()
        self._transport: Any = None
        self._exchange: Exchange | None = None
        self._fed = self._interim = 0
        self._head = self._spoiled = self._keep = self._paused = self._heard = self._last = False
        self._seen = b""
        """Of a head that is not all here."""
        self._torn: httptools.HttpParserError | None = None
        """That head says twice where the body ends."""
        self.used = 0
        """Requests it has carried."""
        self.heard_at = clock.monotonic()
        """When it last said something, was last waited for, or became idle."""

    # ---- called by the transport ----

    def ask(self, request: bytes, last: bool) -> Exchange:
        """`last`: it is not kept after this."""
        exchange = self._exchange = Exchange(self, self._clock)
        self._fed = self._interim = 0
        self._head, self._heard, self._last, self._seen = True, False, last, b""
        self.used += 1
        self._transport.write(request)
        self._loop.call_soon(exchange.sent)
        return exchange

    @property
    def usable(self) -> bool:
        return self._exchange is None and not self._transport.is_closing()

    @property
    def version(self) -> bytes:
        return b"HTTP/" + str(self._parser.get_http_version()).encode("ascii")

    def look(self, now: float, patience: float, keep: float) -> None:
        """Ends what has been waited for, or has been idle, for too long."""
        quiet, exchange = now - self.heard_at, self._exchange
        if exchange is None:
            if quiet > keep:
                self._transport.close()
        elif exchange.waiting and quiet > patience:
            exchange.fail(TransportFault("timeout", "no byte in time"))
            self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def read(self, exchange: Exchange) -> None:
        """Its buffer is empty again."""
        if self._paused and exchange is self._exchange:
            self._paused = False
            self._transport.resume_reading()

    # ---- called by asyncio ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data, exchange = self._buffer[:nbytes], self._exchange
        if exchange is None:  # idle, and says what nobody asked for
            self._transport.abort()
            return
        self._heard, self.heard_at = True, self._clock.monotonic()
        self._fed += nbytes
        try:
            self._feed(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._spoiled = True
            cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else None
            exchange.fail(cause if isinstance(cause, TransportFault) else TransportFault("protocol", _said(error)))
        if self._fed > HEAD:
            what = "a head" if self._head else "what is no body"
            exchange.fail(TransportFault("headers", f"more than {HEAD} bytes of {what}", retriable=False))
        if exchange.complete or exchange.error is not None:
            self._done(exchange)
        elif exchange.held > BUFFER and not self._paused and not exchange.waiting:
            self._paused = True
            self._transport.pause_reading()
        if exchange.status:
            exchange.wake()

    def _feed(self, data: memoryview) -> None:
        if self._head:
            self._seen += data
        if self._torn is None:
            try:
                self._parser.feed_data(data)
                return
            except httptools.HttpParserError as error:
                if not self._head or "Content-Length" not in str(error):
                    raise
                self._torn = error
        whole = mended(self._seen)
        if whole is None:
            raise self._torn
        if whole and self._exchange is not None:
            self._parser, self._last = self._new_parser(), True
            self._exchange.fields.clear()
            self._parser.feed_data(whole)

    def _new_parser(self) -> httptools.HttpResponseParser:
        parser = httptools.HttpResponseParser(self)
        parser.set_dangerous_leniencies(**_LENIENT)
        return parser

    def connection_lost(self, error: Exception | None) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            if error is None and exchange.status and not _announced(exchange.fields):
                exchange.complete = True
                exchange.wake()
            else:
                exchange.fail(self._fault(exchange, error))
        self._lost(self)

    def _fault(self, exchange: Exchange, error: Exception | None) -> TransportFault:
        why = str(error)[:200] if error else ""
        if exchange.status:
            return TransportFault("protocol", why or "the body is cut short")
        why = why or "hung up before an answer"
        return WentStale(why) if self.used > 1 and not self._heard else TransportFault("protocol", why)

    def _done(self, exchange: Exchange) -> None:
        self._exchange = None
        if self._spoiled or not self._keep or exchange.error is not None:
            self._transport.abort()
            return
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        self._free(self)

    # ---- called by the parser ----

    def on_message_begin(self) -> None:
        if self._exchange is None or self._exchange.complete:
            self._spoiled = True  # more than was asked for

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._head or self._exchange is None:
            return  # a trailer
        fields = self._exchange.fields
        fields.append((name, value.rstrip(b" \t")))
        if len(fields) > FIELDS:
            raise TransportFault("headers", f"more than {FIELDS} headers", retriable=False)

    def on_headers_complete(self) -> None:
        exchange, status = self._exchange, self._parser.get_status_code()
        if exchange is None or exchange.complete:
            return
        if status < 100:
            raise TransportFault("protocol", f"HTTP status {status}")
        if status < 200:
            self._interim += 1
            exchange.fields.clear()
            if status == 101 or self._interim > INTERIM:
                raise TransportFault("protocol", f"HTTP status {status} that was not asked for")
            return
        self._head, self._fed, self._seen, self._torn = False, 0, b"", None
        self._keep = not self._last and self._parser.should_keep_alive()
        exchange.status = status

    def on_body(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is not None and not exchange.complete:
            self._fed = 0
            exchange.body.append(data)
            exchange.held += len(data)

    def on_message_complete(self) -> None:
        if self._exchange is not None and self._exchange.status:  # else it was an interim answer
            self._exchange.complete = True


def _announced(fields: list[tuple[bytes, bytes]]) -> bool:
    """Whether the head says where the body ends; else the end of the connection does."""
    said = {name.lower(): value.lower() for name, value in fields}
    return b"content-length" in said or said.get(b"transfer-encoding", b"identity") != b"identity"


def _said(error: Exception) -> str:
    return f"not HTTP: {error}"[:200]
