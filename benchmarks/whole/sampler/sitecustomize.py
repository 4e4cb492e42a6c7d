"""Where the CPU of a Python process goes, by sampling: imported by each that starts with this folder on PYTHONPATH.

Every few milliseconds of CPU the stack of the main thread is written down, with the CPU of that thread since the last
time as its weight; so for other threads, by their names where they wait again by then. A sample due in C is taken as
soon as that returns: its time is with the Python code that called it, or that runs next. cProfile would make code of
many small calls look dearer than it is.
"""

import atexit
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import CodeType, FrameType

EVERY = 0.004  # seconds of CPU
DEPTH = 40  # frames of a stack
_THREAD_CLOCK = 6  # CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED, of Linux
_WAITING = (threading.__file__, str(Path(threading.__file__).parent / "concurrent" / "futures" / "thread.py:_worker"))
FOLDER = os.environ.get("BENCH_SAMPLES", "")
AFTER = os.environ.get("BENCH_SAMPLES_AFTER", os.devnull)
"""File that grows when what counts begins: the log of the web."""


class Sampler:
    """Lives on the main thread. What it has is written now and again: a worker is killed without ceremony."""

    def __init__(self, folder: Path, after: str) -> None:
        self._path = folder / f"{os.getpid()}.json"
        self._after, self._size, self._begun = after, os.stat(after).st_size, False
        self._seconds: dict[str, float] = {}
        self._names: dict[CodeType, str] = {}
        self._main = threading.main_thread().ident
        self._threads: dict[int, float] = {}
        self._process = time.process_time()
        self._taken, self._due = 0, 1

    def start(self) -> None:
        signal.signal(signal.SIGPROF, self._sample)
        signal.siginterrupt(signal.SIGPROF, False)
        signal.setitimer(signal.ITIMER_PROF, EVERY, EVERY)
        atexit.register(self.stop)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        self._write()

    def _sample(self, number: int, frame: FrameType | None) -> None:
        spent, frames = 0.0, sys._current_frames()
        for thread in threading.enumerate():
            if thread.ident is None or thread.native_id is None:
                continue
            seconds = self._since(thread.native_id)
            spent += seconds
            if thread.ident == self._main:
                self._book(self._stack(frame), seconds)
            elif seconds:
                stack = self._stack(frames.get(thread.ident))
                waits = not stack or stack.startswith(_WAITING)
                self._book(f"thread:{thread.name.rstrip('0123456789_-')}" if waits else stack, seconds)
        process = time.process_time()
        self._book("thread:native", max(0.0, process - self._process - spent))
        self._process = process
        if not self._begun:
            self._seconds.clear()
            self._begun = os.stat(self._after).st_size > self._size
        self._taken += 1
        if self._taken >= self._due:
            self._due += min(64, self._taken)
            self._write()

    def _since(self, thread: int) -> float:
        """By the system's number of it: for a thread that has ended, pthread_getcpuclockid would give our own clock."""
        try:
            now = time.clock_gettime((~thread << 3) | _THREAD_CLOCK)
        except OSError:  # it has just ended
            return 0.0
        seconds = now - self._threads.get(thread, 0.0)
        self._threads[thread] = now
        return max(0.0, seconds)

    def _book(self, where: str, seconds: float) -> None:
        self._seconds[where] = self._seconds.get(where, 0.0) + seconds

    def _stack(self, frame: FrameType | None) -> str:
        found: list[str] = []
        while frame is not None and len(found) < DEPTH:
            code = frame.f_code
            name = self._names.get(code)
            if name is None:
                name = self._names[code] = f"{code.co_filename}:{code.co_qualname}"
            found.append(name)
            frame = frame.f_back
        return "|".join(found)

    def _write(self) -> None:
        self._path.write_text(json.dumps({"command": sys.orig_argv, "seconds": self._seconds}))


if FOLDER:
    Sampler(Path(FOLDER), AFTER).start()
