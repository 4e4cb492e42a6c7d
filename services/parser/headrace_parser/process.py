"""One worker process, seen from the service: started, spoken to, timed, killed, reaped."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import cast

import msgspec

from headrace_parser.frames import READY, Board, Frame, Hello, Position, Reply, Unpacker, packed

START = 30.0  # seconds a worker may take to say that it is ready: a cold disk, a busy machine
REAP = 2.0  # seconds between the end of the socket and that of the process
_HELD_BACK = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}


class StartFailed(Exception):
    """A worker did not come up."""


class WorkerProcess(asyncio.Protocol):
    """Used on the event loop only. `replied` is called with each reply; `ended` returns when the process is no more."""

    def __init__(self, replied: Callable[["WorkerProcess", Reply], None]) -> None:
        self.timed_out = False
        self._replied = replied
        self._replies = msgspec.msgpack.Decoder(Reply)
        self._unpacker = Unpacker()
        self._ready = asyncio.Event()
        self._lost = asyncio.Event()
        self._position = Position(0, 0)
        self._unmoved = 0.0

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """As far as is known here."""
        return not (self._lost.is_set() or self._transport.is_closing())

    @property
    def position(self) -> Position:
        """The page it is on, or was on when it ended."""
        return self._board.read()

    async def start(self, hello: Hello) -> None:
        """Returns when it is ready for frames; `StartFailed` leaves nothing behind."""
        ours = self._spawn()
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=ours)
            self._transport.write(packed(hello))
            async with asyncio.timeout(START):
                await self._ready.wait()
        except BaseException as error:
            self.kill()
            code = await self.ended()
            if not isinstance(error, TimeoutError):
                raise
            raise StartFailed(f"a worker was not ready after {START:g} s (code {code})") from None
        if self._lost.is_set():
            raise StartFailed(f"a worker ended with code {await self.ended()} before it was ready")

    def send(self, frame: Frame) -> None:
        self._transport.write(packed(frame))

    def tick(self, seconds: float, deadline: float) -> None:
        """Called every `seconds` while it has work: kills it when one page has taken longer than `deadline`.

        A tick counts as `seconds` however long ago the last one was: a machine that slept blames no page for it.
        """
        position = self.position
        self._unmoved = self._unmoved + seconds if position == self._position else 0.0
        self._position = position
        if self._unmoved >= deadline and not self.timed_out:
            self.timed_out = True
            self.kill()

    def rest(self) -> None:
        """It has nothing to do: no time counts."""
        self._unmoved = 0.0

    def kill(self) -> None:
        if self._popen.poll() is None:
            os.kill(self._popen.pid, signal.SIGKILL)
        self._transport.abort()

    async def ended(self) -> int:
        """Its exit code (negative: the signal that ended it), once it is reaped."""
        await self._lost.wait()
        try:
            return await asyncio.to_thread(self._popen.wait, REAP)
        except subprocess.TimeoutExpired:  # it closed the socket and lives on
            self.kill()
            return await asyncio.to_thread(self._popen.wait)

    def _spawn(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        try:
            with theirs, tempfile.TemporaryFile(prefix="headrace-parser-") as shared:
                shared.truncate(Board.SIZE)
                self._board = Board(shared.fileno())
                self._popen = _spawned(theirs.fileno(), shared.fileno())
        except OSError as error:
            ours.close()
            raise StartFailed(f"{sys.executable} cannot be run: {error}") from None
        return ours

    # ---- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        for message in self._unpacker.feed(data):
            if message == READY:
                self._ready.set()
            else:
                self._replied(self, self._replies.decode(message))

    def connection_lost(self, error: Exception | None) -> None:
        self._lost.set()
        self._ready.set()


def _spawned(channel: int, board: int) -> "subprocess.Popen[bytes]":
    """On the event loop's thread: Linux ends the worker with the THREAD that made it.

    A terminal's Ctrl-C and a supervisor's SIGTERM reach every process of the group, and the service still needs its
    workers to drain: they inherit these signals blocked, from their first instruction on. Without -P a folder the
    user happens to stand in could shadow our modules.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _HELD_BACK)
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "headrace_parser.worker", str(channel), str(board), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=(channel, board),
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
