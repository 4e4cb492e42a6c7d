"""The state of a crawl in numbers: what `headrace status`, the progress line and the summary are made of."""

from collections import Counter
from typing import Any

from msgspec import Struct

from headrace.completion import Scan
from headrace_schemas.messages import Progress


class Status(Struct, frozen=True):
    """Sums over all partitions. `discovered` is the sum of the six states."""

    complete: bool
    mode: str
    run: int
    discovered: int
    queued: int
    in_flight: int
    fetched: int
    redirected: int
    failed: int
    refused: int
    tasks: int
    """robots.txt requests under way."""
    bytes: int
    behind_budget: int
    rejected: dict[str, int]
    refused_by: dict[str, int]
    failed_by: dict[str, int]
    busiest: list[tuple[str, int]]
    next_due: float
    lag: dict[str, int]
    """Messages not yet read, by `group < topic`; only those behind."""
    waiting_for: str
    """Why it is not complete."""


def status_of(scan: Scan, complete: bool) -> Status:
    rows = scan.progress
    lag: Counter[str] = Counter()
    for edge in scan.edges:
        lag[f"{edge.group} < {edge.topic}"] += edge.end - edge.committed
    waiting = "" if complete else scan.unfinished()
    mode = scan.control.mode if scan.control else "new"
    return Status(
        complete=complete,
        mode=mode,
        run=scan.control.run if scan.control else 0,
        discovered=_sum(rows, "discovered"),
        queued=_sum(rows, "queued"),
        in_flight=_sum(rows, "in_flight"),
        fetched=_sum(rows, "fetched"),
        redirected=_sum(rows, "redirected"),
        failed=_sum(rows, "failed"),
        refused=_sum(rows, "refused"),
        tasks=_sum(rows, "tasks_in_flight"),
        bytes=_sum(rows, "bytes"),
        behind_budget=_sum(rows, "behind_budget"),
        rejected=_merge(rows, "rejected"),
        refused_by=_merge(rows, "refused_by"),
        failed_by=_merge(rows, "failed_by"),
        busiest=sorted((pair for row in rows for pair in row.busiest), key=lambda pair: -pair[1])[:5],
        next_due=min((row.next_due for row in rows if row.next_due), default=0.0),
        lag={name: n for name, n in sorted(lag.items()) if n},
        waiting_for=f"{mode}; {waiting}" if waiting and mode in ("paused", "stopping") else waiting,
    )


def _sum(rows: tuple[Progress, ...], name: str) -> int:
    return sum(getattr(row, name) for row in rows)


def _merge(rows: tuple[Progress, ...], name: str) -> dict[str, int]:
    total: Counter[str] = Counter()
    for row in rows:
        total.update(getattr(row, name))
    return dict(sorted(total.items()))


def as_lines(status: Status) -> list[str]:
    """For people."""
    head = "complete" if status.complete else f"{status.mode}, not complete: {status.waiting_for}"
    lines = [
        head,
        f"discovered {status.discovered:,}: fetched {status.fetched:,}, redirected {status.redirected:,}, "
        f"failed {status.failed:,}, refused {status.refused:,}, queued {status.queued:,}, "
        f"in flight {status.in_flight:,}",
    ]
    for title, table in (
        ("failed", status.failed_by),
        ("refused", status.refused_by),
        ("links out of scope", status.rejected),
        ("to read", status.lag),
    ):
        if table:
            lines.append(f"{title}: " + ", ".join(f"{name} {n:,}" for name, n in table.items()))
    if status.behind_budget:
        lines.append(f"{status.behind_budget:,} queued behind limits.max_pages: raise it and crawl again to go on")
    if status.busiest:
        lines.append("longest queues: " + ", ".join(f"{host} {n:,}" for host, n in status.busiest))
    return lines


def as_json(status: Status) -> dict[str, Any]:
    return {name: getattr(status, name) for name in status.__struct_fields__}
