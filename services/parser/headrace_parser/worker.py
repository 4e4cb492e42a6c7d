"""A worker process: `python -m headrace_parser.worker SOCKET BOARD PARENT` (two descriptors and a process id).

Spawned, never forked: the service has threads and an open database. It lives as long as its end of the socket, and is
killed without ceremony when a page takes too long; so it keeps nothing, and nobody but the service speaks to it.
"""

import ctypes
import importlib
import os
import resource
import select
import signal
import socket
import struct
import sys
import threading
from functools import partial
from typing import Any

import msgspec

from headrace_parser.bench import Bench
from headrace_parser.frames import OUT_OF_MEMORY, READY, Board, Frame, Hello, packed

_PR_SET_PDEATHSIG = 1
_MIB = 1024 * 1024
_PAGE = resource.getpagesize()


def main() -> None:
    channel = socket.socket(fileno=int(sys.argv[1]))
    _die_with_parent(int(sys.argv[3]), channel)
    try:
        _serve(channel, Board(int(sys.argv[2])))
    except MemoryError:
        os._exit(OUT_OF_MEMORY)  # at once: clean-up needs memory too
    except (ConnectionError, EOFError):
        return  # the service is gone


def _serve(channel: socket.socket, board: Board) -> None:
    hello = msgspec.msgpack.decode(_received(channel), type=Hello)
    sys.path[:] = hello.paths
    bench = Bench(hello, _named(hello.parse))
    frames = msgspec.msgpack.Decoder(Frame)
    growth = hello.memory * _MIB
    address_space = AddressSpace()
    size = _limit_memory(growth, address_space.now())
    channel.sendall(packed(READY))
    while True:
        frame = frames.decode(_received(channel))
        reply = bench.work(frame, partial(board.write, frame.number))
        board.write(frame.number, Board.BETWEEN)
        channel.sendall(packed(reply))
        if address_space.now() - size > growth // 2:
            return  # what leaks or fragments would be paid for by an innocent page: make way for a fresh process


def _named(spec: str) -> Any:
    module, _, function = spec.partition(":")
    return getattr(importlib.import_module(module), function)


def _received(channel: socket.socket) -> bytearray:
    (length,) = struct.unpack(">I", _exactly(channel, 4))
    return _exactly(channel, length)


def _exactly(channel: socket.socket, length: int) -> bytearray:
    buffer = bytearray(length)
    view, have = memoryview(buffer), 0
    while have < length:
        got = channel.recv_into(view[have:])
        if got == 0:
            raise EOFError
        have += got
    return buffer


def _limit_memory(growth: int, size: int) -> int:
    """A page that eats memory gets a MemoryError here, instead of the machine's killer choosing a victim."""
    if size:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        limit = size + growth
        resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
    return size


class AddressSpace:
    """Of this process. Asked for after every frame, so its file stays open: 1 µs where opening it anew takes 9."""

    def __init__(self) -> None:
        try:
            self._file = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._file = -1

    def now(self) -> int:
        """Bytes; 0 where the system does not say (then there is no limit either)."""
        return int(os.pread(self._file, 32, 0).split(maxsplit=1)[0]) * _PAGE if self._file >= 0 else 0


def _die_with_parent(parent: int, channel: socket.socket) -> None:
    """Also in the middle of a page that never ends: an orphan would burn a core for ever."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:  # it died before the line above
            os._exit(0)
    else:
        threading.Thread(target=_watch, args=(channel,), daemon=True).start()


def _watch(channel: socket.socket) -> None:
    poller = select.poll()
    poller.register(channel, select.POLLHUP)
    poller.poll()
    os._exit(0)


if __name__ == "__main__":
    main()
