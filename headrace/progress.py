"""What a person sees while a crawl runs: a live panel on a terminal, plain lines otherwise."""

import time
from collections import deque
from collections.abc import Callable
from typing import Protocol, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from headrace.status import Status

PLAIN_EVERY = 5.0  # seconds between two plain lines
RATE_OVER = 10.0  # seconds a rate is measured over


class View(Protocol):
    def update(self, status: Status) -> None: ...

    def close(self) -> None: ...


class Rate:
    """Pages a second over the last few seconds."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._points: deque[tuple[float, int]] = deque()

    def add(self, fetched: int) -> float:
        now = self._monotonic()
        self._points.append((now, fetched))
        while now - self._points[0][0] > RATE_OVER and len(self._points) > 2:
            self._points.popleft()
        then, before = self._points[0]
        return (fetched - before) / (now - then) if now > then else 0.0


class PlainView:
    """A line now and then, for logs and pipes."""

    def __init__(self, out: TextIO, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._out, self._monotonic = out, monotonic
        self._rate, self._next = Rate(monotonic), monotonic() + 1.0

    def update(self, status: Status) -> None:
        rate = self._rate.add(status.fetched)
        if self._monotonic() < self._next:
            return
        self._next = self._monotonic() + PLAIN_EVERY
        print(f"{time.strftime('%H:%M:%S')}  {_figures(status, rate)}{_busiest(status)}", file=self._out, flush=True)

    def close(self) -> None:
        pass


class LiveView:
    """A few lines that are redrawn in place."""

    def __init__(self, console: Console) -> None:
        self._rate = Rate()
        self._live = Live(console=console, refresh_per_second=4, transient=True)
        self._live.start()

    def update(self, status: Status) -> None:
        rate = self._rate.add(status.fetched)
        lines: list[Text | Table] = [Text(_figures(status, rate), style="bold")]
        if status.mode != "running":
            lines.append(Text(f"{status.mode}: `headrace resume` goes on", style="yellow"))
        if status.busiest:
            table = Table.grid(padding=(0, 2))
            for host, queued in status.busiest:
                table.add_row(Text("  "), Text(host), Text(f"{queued:,} queued", style="dim"))
            lines.append(table)
        self._live.update(Group(*lines))

    def close(self) -> None:
        self._live.stop()


def view_for(out: TextIO) -> View:
    return LiveView(Console(file=out)) if out.isatty() else PlainView(out)


def _figures(status: Status, rate: float) -> str:
    errors = f"  failed {status.failed:,}" if status.failed else ""
    refused = f"  refused {status.refused:,}" if status.refused else ""
    paused = f"  [{status.mode}]" if status.mode != "running" else ""
    return (
        f"fetched {status.fetched:,} ({rate:.1f} pages/s)  queued {status.queued:,}  "
        f"in flight {status.in_flight + status.tasks:,}{errors}{refused}{paused}"
    )


def _busiest(status: Status) -> str:
    if not status.busiest:
        return ""
    return "  busiest " + ", ".join(f"{host} {n:,}" for host, n in status.busiest[:3])
