"""What a running crawl has spent and holds, several times a second, beside how many pages it has stored by then.

Pages are counted by the last number in the index: no scan, however many there are. A row follows its body to the disk.
"""

import sqlite3
import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import Struct

from benchmarks.whole.measure import processes, tree

EVERY = 0.2  # seconds


class Sample(Struct, frozen=True, array_like=True):
    at: float
    """Seconds since the first one."""
    pages: int
    """Stored so far."""
    cpu: float
    """Seconds, of all its processes, ended ones too."""
    system: float
    """Of `cpu`: in the kernel."""
    main: float
    """MB resident."""
    workers: float
    """MB resident in all its children."""

    @property
    def rss(self) -> float:
        return self.main + self.workers


class Sampler:
    """Looks at one crawl from a thread of its own until it is left."""

    def __init__(self, root: int, index: Path) -> None:
        self.samples: list[Sample] = []
        self._root, self._index = root, index
        self._began = time.monotonic()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ending.set()
        self._thread.join()

    def _run(self) -> None:
        pages = Pages(self._index)
        try:
            while not self._ending.wait(EVERY):
                self._look(pages.stored())
        finally:
            self._look(pages.stored())
            pages.close()

    def _look(self, pages: int) -> None:
        found = tree(self._root, processes())
        self.samples.append(
            Sample(
                time.monotonic() - self._began,
                pages,
                sum(process.cpu for process in found),
                sum(process.system for process in found),
                found[0].rss if found else 0.0,
                sum(process.rss for process in found[1:]),
            )
        )


class Pages:
    """One connection, kept: opening one for each look would cost more than the look."""

    def __init__(self, index: Path) -> None:
        self._index = index
        self._connection: sqlite3.Connection | None = None
        self._last = 0

    def stored(self) -> int:
        try:
            if self._connection is None:
                self._connection = sqlite3.connect(f"file:{self._index}?mode=ro", uri=True)
            row = self._connection.execute("SELECT max(id) FROM pages").fetchone()
        except sqlite3.OperationalError:  # not made yet, or busy
            return self._last
        self._last = row[0] or 0
        return self._last

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


def spent_at(samples: Sequence[Sample], pages: float, of: str = "cpu") -> float:
    """CPU seconds when so many pages were stored: between two samples, in proportion."""
    after = min(bisect_left(samples, pages, key=attrgetter("pages")), len(samples) - 1)
    later = samples[after]
    earlier = samples[max(0, after - 1)]
    if later.pages <= earlier.pages:
        return float(getattr(later, of))
    share = min(1.0, max(0.0, (pages - earlier.pages) / (later.pages - earlier.pages)))
    return float(getattr(earlier, of) + share * (getattr(later, of) - getattr(earlier, of)))
