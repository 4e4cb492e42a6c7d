"""One process from its first signal handler to its exit code."""

import asyncio
import errno
import gc
import os
import resource
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from headrace_runtime import malloc
from headrace_runtime.logs import escaped, get_logger
from headrace_runtime.rootcause import root_cause
from headrace_schemas.errors import HeadraceError, LayoutMismatch, UsageError

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
YOUNG = 50_000
"""Objects the garbage collector lets come before it looks. At Python's own 700 it looked through the requests under way
again and again, a tenth of the CPU of a page; what we do leaves next to no cycles behind."""
DESCRIPTORS = 65_536
_NOT_OURS = (errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR)
"""What a folder may be that somebody else has to mend."""
_HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)

log = get_logger("process")


class Signals:
    """What the outside asks of this process. Callbacks run on the event loop."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        """Set by SIGTERM and by the first SIGINT."""
        self.stopped_by: int | None = None
        self._reload: list[Callable[[], None]] = []
        self._dump: list[Callable[[], None]] = []

    def on_reload(self, callback: Callable[[], None]) -> None:
        """SIGHUP."""
        self._reload.append(callback)

    def on_dump(self, callback: Callable[[], None]) -> None:
        """SIGUSR1: say what you are doing."""
        self._dump.append(callback)

    def received(self, number: int) -> None:
        match number:
            case signal.SIGHUP:
                _call(self._reload)
            case signal.SIGUSR1:
                _call(self._dump)
            case _:
                self.stopped_by = self.stopped_by or number
                self.stop.set()


def run(main: Callable[[Signals], Awaitable[int]]) -> int:
    """Runs `main` to its end and says the exit code; whatever escapes it becomes one line and a code."""
    gc.freeze()  # modules and what is in them: there as long as we are: no collection need look at it
    gc.set_threshold(YOUNG)
    malloc.give_back()
    _raise_descriptors()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            return runner.run(_handled(main))
    except KeyboardInterrupt:  # before our handlers were there, or after they were gone
        return INTERRUPTED
    except BaseException as error:
        return report(error)


def _raise_descriptors() -> None:
    """A connection is a file descriptor. The usual soft limit of 1,024 is for programs that call select(2); ours may
    take what the hard limit gives."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


async def _handled(main: Callable[[Signals], Awaitable[int]]) -> int:
    signals = Signals()
    with _handlers(signals):
        try:
            code = await main(signals)
        except asyncio.CancelledError:
            if signals.stopped_by is None:
                raise
            code = DONE
    return INTERRUPTED if code == DONE and signals.stopped_by == signal.SIGINT else code


def exit_code(error: BaseException) -> int:
    cause = root_cause(error)
    if isinstance(cause, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(cause, SystemExit):
        return cause.code if isinstance(cause.code, int) else FAILED if cause.code else DONE
    return USAGE if isinstance(cause, UsageError | LayoutMismatch) else FAILED


def report(error: BaseException) -> int:
    """One line for what we know, a traceback in the log for what we do not; → the exit code."""
    cause = root_cause(error)
    match cause:
        case SystemExit() | KeyboardInterrupt():
            pass
        case HeadraceError():
            _complain(str(cause) or type(cause).__name__)
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            _complain(f"disk full: {cause}; what was committed is kept, make room and start again")
        case OSError(errno=number, filename=str(path)) if number in _NOT_OURS:
            _complain(f"{path}: {cause.strerror}")
        case _:
            log.exception("unexpected error", of=cause)
            _complain(f"unexpected {type(cause).__name__}: {cause}")
    return exit_code(cause)


def _complain(text: str) -> None:
    try:
        print("headrace: " + escaped(" ".join(text.split("\n"))), file=sys.stderr, flush=True)
    except OSError:
        pass  # nobody reads it; the exit code still says it


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


@contextmanager
def _handlers(signals: Signals) -> Iterator[None]:
    """Ours while `main` runs, then those that were there. Only the main thread of a process may have any."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, Any] = {number: signal.getsignal(number) for number in _HANDLED}
    for number in _HANDLED:
        loop.add_signal_handler(number, _received, loop, signals, number)
    try:
        yield
    finally:
        for number in _HANDLED:
            loop.remove_signal_handler(number)
            signal.signal(number, before[number])


def _received(loop: asyncio.AbstractEventLoop, signals: Signals, number: signal.Signals) -> None:
    if number == signal.SIGINT:
        # The second one must work even when the loop is stuck, so it goes past it.
        loop.remove_signal_handler(number)
        signal.signal(number, _leave_now)
    signals.received(number)


def _leave_now(number: int, frame: object) -> None:
    """Nothing is lost that was committed: the next start finds the same as after a kill."""
    os.write(2, b"headrace: interrupted twice, leaving at once\n")
    os._exit(INTERRUPTED)


def _call(callbacks: list[Callable[[], None]]) -> None:
    for callback in callbacks:
        try:
            callback()
        except Exception:
            log.exception("signal callback failed")
