"""A running `crawl` holds its workspace; other commands speak to it over `control.sock`: one JSON line each way."""

import asyncio
import errno
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from headrace_runtime.clock import Deadline
from headrace_schemas.errors import FatalError, HeadraceError, UsageError, WorkspaceBusy

Answer = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
MAX_LINE = 4 * 1024 * 1024  # a `seed` of many URLs is one line
_LONGEST_PATH = 100  # bytes: the kernel's limit for a socket's path is 108


class ControlServer:
    """`answer` gets {"do": verb, …} and returns what the other side prints."""

    def __init__(self, path: Path, answer: Answer) -> None:
        self._path, self._answer = path, answer
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """The workspace is ours by its lock, so a socket that is there already was left by a killed process."""
        self._path.unlink(missing_ok=True)
        with _short(self._path) as path:
            self._server = await asyncio.start_unix_server(self._serve, path, limit=MAX_LINE)
        self._path.chmod(0o600)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = json.loads(await reader.readline())
            try:
                reply = {"ok": True, **await self._answer(request)}
            except HeadraceError as error:
                reply = {"ok": False, "error": str(error), "usage": isinstance(error, UsageError)}
            writer.write(json.dumps(reply).encode() + b"\n")
            await writer.drain()
        except (ValueError, OSError):  # not a line of JSON, or it went away: its own loss
            pass
        finally:
            writer.close()


async def ask(path: Path, request: dict[str, Any], timeout: float = 30.0) -> dict[str, Any] | None:
    """What the running crawl answers, or None if none runs here."""
    connected = await _connected(path)
    if connected is None:
        return None
    reader, writer = connected
    try:
        writer.write(json.dumps(request).encode() + b"\n")
        async with asyncio.timeout(timeout):
            line = await reader.readline()
    except (TimeoutError, OSError):
        raise FatalError(f"the crawl that holds {path.parent} does not answer") from None
    finally:
        writer.close()
    if not line:
        return None
    reply: dict[str, Any] = json.loads(line)
    if not reply.pop("ok"):
        raise (UsageError if reply.get("usage") else FatalError)(reply["error"])
    return reply


async def _connected(path: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    """None: nobody listens there."""
    try:
        with _short(path) as short:
            return await asyncio.open_unix_connection(short, limit=MAX_LINE)
    except (FileNotFoundError, ConnectionRefusedError):
        return None
    except OSError as error:
        if error.errno in (errno.ENOTSOCK, errno.ENOENT):
            return None
        raise FatalError(f"{path}: {error.strerror}") from None


async def listens(path: Path) -> bool:
    """Whether a crawl runs there."""
    connected = await _connected(path)
    if connected is not None:
        connected[1].close()
    return connected is not None


async def ask_or(
    path: Path, request: dict[str, Any], alone: Callable[[], Awaitable[dict[str, Any]]], patience: float = 5.0
) -> dict[str, Any]:
    """What the running crawl answers, or, where none runs, what `alone` finds in the workspace. A crawl that starts or
    ends holds the workspace and does not answer yet, or no more: for that, `patience` in seconds."""
    deadline = Deadline(patience)
    while True:
        reply = await ask(path, request)
        if reply is not None:
            return reply
        try:
            return await alone()
        except WorkspaceBusy:
            if deadline.passed:
                raise WorkspaceBusy(
                    f"a crawl holds {path.parent} and does not answer (it is starting or ending): ask again in a moment"
                ) from None
        await asyncio.sleep(0.1)


class _short:
    """A path that fits into a socket address: a deep one is reached through its folder's descriptor."""

    def __init__(self, path: Path) -> None:
        self._path, self._folder = path, -1

    def __enter__(self) -> str:
        full = str(self._path.absolute())
        if len(os.fsencode(full)) <= _LONGEST_PATH:
            return full
        self._folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        return f"/proc/self/fd/{self._folder}/{self._path.name}"

    def __exit__(self, *_: object) -> None:
        if self._folder >= 0:
            os.close(self._folder)
