"""Names looked up by the system, each in a thread of its own that is waited for no longer than its time.

`getaddrinfo` blocks, and nothing ends it early: a dead name server keeps its thread for as long as the system's
resolver goes on trying. So whoever waits leaves it behind, and its place goes to the next name. The threads left behind
are bounded too; past that, names wait until one comes back, and if none does it is our own shortage and no host's. They
are daemons: an executor's would be waited for at the end of the process.
"""

import asyncio
import os
import socket
from collections.abc import Callable
from functools import partial
from threading import Thread

from headrace_fetcher.faults import Exhausted, TransportFault, is_exhaustion

AT_ONCE = 32
"""Lookups that are waited for."""
LEFT_BEHIND = 224
"""Threads that nobody waits for any more."""
_FOREVER = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})

Found = tuple[str, ...]


class Lookups:
    """All calls on one event loop."""

    def __init__(
        self, *, timeout: float, patience: float, at_once: int = AT_ONCE, left_behind: int = LEFT_BEHIND
    ) -> None:
        """`timeout`: seconds of one lookup. `patience`: seconds until it may begin."""
        self._timeout, self._patience, self._most_left = timeout, patience, left_behind
        self._places = asyncio.Semaphore(at_once)
        self._left = 0

    async def ask(self, host: str) -> Found:
        """At least one address. `TransportFault("dns")`, or `Exhausted` where it is we who cannot ask."""
        try:
            async with asyncio.timeout(self._patience):
                await self._places.acquire()
        except TimeoutError:
            raise Exhausted("too many names are being looked up and get no answer") from None
        return await self._waited_for(host, self._begun(host))

    async def _waited_for(self, host: str, answer: "asyncio.Future[Found]") -> Found:
        try:
            async with asyncio.timeout(self._timeout):
                return await asyncio.shield(answer)
        except TimeoutError:
            raise TransportFault("dns", f"{host}: no answer in {self._timeout:g} s") from None
        finally:
            self._give_up_place(answer)

    def _give_up_place(self, answer: "asyncio.Future[Found]") -> None:
        if answer.done():
            self._places.release()
            return
        keeps = self._left >= self._most_left
        if not keeps:
            self._left += 1
            self._places.release()
        answer.add_done_callback(partial(self._came_back, keeps))

    def _came_back(self, kept_its_place: bool, answer: "asyncio.Future[Found]") -> None:
        if kept_its_place:
            self._places.release()
        else:
            self._left -= 1
        answer.exception()  # or asyncio would tell that nobody asked for it

    def _begun(self, host: str) -> "asyncio.Future[Found]":
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Found] = loop.create_future()
        try:
            Thread(target=_look_up, args=(host, loop, answer), name=f"dns {host}", daemon=True).start()
        except RuntimeError as error:  # the system gives no more threads
            answer.set_exception(Exhausted(f"{host}: {error}"))
        return answer


def _look_up(host: str, loop: asyncio.AbstractEventLoop, answer: "asyncio.Future[Found]") -> None:
    tell: Callable[[], None]
    try:
        tell = partial(answer.set_result, getaddrinfo(host))
    except Exception as error:
        tell = partial(answer.set_exception, _fault_of(host, error))
    try:
        loop.call_soon_threadsafe(tell)
    except RuntimeError:
        pass  # the loop has ended meanwhile


def getaddrinfo(host: str) -> Found:
    infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    return tuple(dict.fromkeys(str(info[4][0]) for info in infos))


def _fault_of(host: str, error: Exception) -> Exception:
    if is_exhaustion(error) or (isinstance(error, OSError) and _without_descriptor()):
        return Exhausted(f"{host}: {error}")
    match error:
        case socket.gaierror():
            if error.errno == socket.EAI_MEMORY:
                return Exhausted(f"{host}: {error.strerror}")
            return TransportFault("dns", f"{host}: {error.strerror}", retriable=error.errno not in _FOREVER)
        case OSError() | UnicodeError():  # a label the IDNA codec refuses
            return TransportFault("dns", f"{host}: {error}", retriable=isinstance(error, OSError))
        case _:
            return error


def _without_descriptor() -> bool:
    """Where none is left, the C library may say that there is no such name."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return is_exhaustion(error)
    return False
