"""The HTTP endpoint of a process: /metrics, /healthz, /readyz, /status, and what its services answer (/explain).

One request a connection, bounded in every way.

A server of its own instead of a framework's: it must answer while everything else is stuck, cost nothing, and let no
slow or idle peer hold a descriptor.
"""

import asyncio
import json
import socket
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder

from headrace_runtime.logs import get_logger
from headrace_runtime.service import Answer
from headrace_schemas.errors import HeadraceError, UsageError

_HEAD = 16 * 1024  # bytes of a request head
_PATIENCE = 5.0  # seconds a peer has for its request, and again for taking the answer
_CONNECTIONS = 32
_ANY = ("", "0.0.0.0", "::")  # every address of this machine
_WORDS = 8  # of a query
_TEXT, _JSON = "text/plain; charset=utf-8", "application/json"

log = get_logger("endpoint")


def new_registry() -> CollectorRegistry:
    """One per process, not the library's global one: tests run several processes' worth in one."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return registry


class _Answer(NamedTuple):
    status: HTTPStatus
    type: str
    body: bytes


class Endpoint:
    """`ready`, `status` and every answer are called on the event loop and must not wait. `answers` gives those there
    are now: the services are built after the endpoint, which may fail to start."""

    def __init__(
        self,
        registry: CollectorRegistry,
        host: str,
        port: int,
        ready: Callable[[], tuple[bool, str]],
        status: Callable[[], dict[str, Any]],
        answers: Callable[[], Mapping[str, Answer]] = dict,
    ) -> None:
        self._registry, self._host, self._port = registry, host, port
        self._ready, self._status, self._answers = ready, status, answers
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> str:
        """→ host:port under which others reach it: they could make nothing of 0.0.0.0."""
        try:
            self._server = await asyncio.start_server(self._connected, self._host, self._port, limit=_HEAD)
        except OSError as error:
            why = error.strerror or str(error)
            raise UsageError(
                f"cannot listen on {self._host}:{self._port} (metrics.host, metrics.port): {why}"
            ) from None
        port = self._server.sockets[0].getsockname()[1]
        host = socket.gethostname() if self._host in _ANY else self._host
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    async def close(self) -> None:
        if self._server is None:
            return
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()
        self._server = None

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            if len(self._open) <= _CONNECTIONS:
                await self._exchange(reader, writer)
        except (OSError, TimeoutError, EOFError, asyncio.LimitOverrunError):
            pass  # the peer's trouble: it left, dawdled, or sent no request
        except asyncio.CancelledError:
            pass  # closing; raising it would be reported as an error of the server
        finally:
            self._open.discard(task)
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(_PATIENCE):
            head = await reader.readuntil(b"\r\n\r\n")
        method, path, query, headers = _parse(head)
        answer = self._answer(method, path, query, headers)
        async with asyncio.timeout(_PATIENCE):
            writer.write(_bytes(answer, with_body=method != "HEAD"))
            await writer.drain()
            writer.close()
            await writer.wait_closed()

    def _answer(self, method: str, path: str, query: str, headers: Mapping[str, str]) -> _Answer:
        if method not in ("GET", "HEAD"):
            return _text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is answered here")
        try:
            return self._page(path, query, headers)
        except HeadraceError as error:  # of a service's answer: it says no
            usage = isinstance(error, UsageError)
            return _text(HTTPStatus.BAD_REQUEST if usage else HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        except Exception as error:  # a collector or a service's own report is broken: say so, and go on
            log.seldom(path, 60.0, "endpoint failed", path=path, error=repr(error))
            return _text(HTTPStatus.INTERNAL_SERVER_ERROR, repr(error))

    def _page(self, path: str, query: str, headers: Mapping[str, str]) -> _Answer:
        match path:
            case "/metrics":
                encode, content_type = choose_encoder(headers.get("accept", ""))
                return _Answer(HTTPStatus.OK, content_type, encode(self._registry))
            case "/healthz":
                return _text(HTTPStatus.OK, "ok")
            case "/readyz":
                is_ready, why = self._ready()
                return _text(HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE, why)
            case "/status":
                return _json(self._status())
        answers = self._answers()
        if answer := answers.get(path.removeprefix("/")):
            return _json(answer(_query(query)))
        own = ("/metrics", "/healthz", "/readyz", "/status")
        return _text(HTTPStatus.NOT_FOUND, "there are " + ", ".join([*own, *(f"/{name}" for name in answers)]))


def _query(text: str) -> dict[str, str]:
    try:
        return dict(parse_qsl(text, strict_parsing=bool(text), max_num_fields=_WORDS))
    except ValueError as error:
        raise UsageError(f"the query cannot be read: {error}") from None


def _parse(head: bytes) -> tuple[str, str, str, dict[str, str]]:
    """→ method, path, query, headers. A request line that is none has no path that we know."""
    request, *lines = head.decode("latin-1").split("\r\n")
    method, _, rest = request.partition(" ")
    path, _, query = rest.partition(" ")[0].partition("?")
    pairs = (line.partition(":") for line in lines)
    return method, path, query, {name.strip().lower(): value.strip() for name, _, value in pairs}


def _json(report: dict[str, Any]) -> _Answer:
    return _Answer(HTTPStatus.OK, _JSON, json.dumps(report, default=str).encode() + b"\n")


def _text(status: HTTPStatus, text: str) -> _Answer:
    return _Answer(status, _TEXT, text.encode("utf-8", "backslashreplace") + b"\n")


def _bytes(answer: _Answer, with_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status.value} {answer.status.phrase}\r\n"
        f"Content-Type: {answer.type}\r\n"
        f"Content-Length: {len(answer.body)}\r\n"
        "Cache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "Connection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (answer.body if with_body else b"")
