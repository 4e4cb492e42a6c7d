"""The state of a crawl in numbers: what `headrace status`, the progress line and the summary are made of."""

import time
from collections import Counter
from typing import Any

from msgspec import Struct

from headrace.completion import Scan, behind_budget
from headrace.waiting import sentence
from headrace_schemas.messages import Progress

TASKS = ("urls.to_fetch", "fetcher")
_AFTER = ("parser", "storer")
"""Groups that may hold up the frontier by being behind."""


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
    next_host: str = ""
    """The host that `next_due` is of."""
    next_why: str = ""
    """breaker | retry_after | robots | retry; empty: only its turn."""
    why: str = ""
    """Why it stands still; empty: it does not, as far as one look can tell."""
    running: bool = True
    """Whether a crawl is at work here; of a fleet on Kafka it is taken for granted."""


def status_of(scan: Scan, complete: bool, *, running: bool = True, idle: float = 0.0) -> Status:
    """`running`: whether services are at work, as far as the caller knows. `idle`: seconds for which the caller saw
    tasks wait and none of them read."""
    rows = scan.progress
    soonest = min((row for row in rows if row.next_due), key=lambda row: row.next_due, default=None)
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
        behind_budget=behind_budget(rows),
        rejected=_merge(rows, "rejected"),
        refused_by=_merge(rows, "refused_by"),
        failed_by=_merge(rows, "failed_by"),
        busiest=sorted((pair for row in rows for pair in row.busiest), key=lambda pair: -pair[1])[:5],
        next_due=soonest.next_due if soonest else 0.0,
        lag={name: n for name, n in sorted(lag.items()) if n},
        waiting_for=f"{mode}; {waiting}" if waiting and mode in ("paused", "stopping") else waiting,
        next_host=soonest.next_host if soonest else "",
        next_why=soonest.next_why if soonest else "",
        why="" if complete else standstill(scan, time.time(), running=running, idle=idle),
        running=running,
    )


def standstill(scan: Scan, now: float, *, running: bool = True, idle: float = 0.0) -> str:
    """Why no request is made, in the words of `explain`; empty if requests are under way or about to be."""
    control, rows = scan.control, scan.progress
    if control is None or control.revision == 0:
        return sentence({"for": "new"}, now)
    spent = _sum(rows, "queued") == behind_budget(rows) > 0 and not _under_way(rows)
    budget = sentence({"for": "budget", "limit": control.settings.max_pages}, now) if spent else ""
    if not running:
        paused = sentence({"for": "paused"}, now) if control.mode == "paused" else ""
        return "; ".join(filter(None, (budget, sentence({"for": "not_running"}, now), paused)))
    if control.mode in ("paused", "stopping"):
        return sentence({"for": control.mode}, now)
    group, behind = max(((name, lag_of(scan, "pages.fetched", name)) for name in _AFTER), key=lambda pair: pair[1])
    limit = control.settings.max_backlog
    if behind > limit:
        return f"the {group} is behind: " + sentence({"for": "backlog", "behind": behind, "limit": limit}, now)
    if _under_way(rows):
        waiting = lag_of(scan, *TASKS)
        return f"{waiting:,} tasks wait and none was read for {idle:.0f} s: is a fetcher running?" if idle else ""
    return budget or (_all_wait(rows, now) if _sum(rows, "queued") else "")


def _under_way(rows: tuple[Progress, ...]) -> int:
    return _sum(rows, "in_flight") + _sum(rows, "tasks_in_flight")


def lag_of(scan: Scan, topic: str, group: str) -> int:
    """Messages of `topic` that `group` has not read."""
    return sum(edge.end - edge.committed for edge in scan.edges if (edge.topic, edge.group) == (topic, group))


def _all_wait(rows: tuple[Progress, ...], now: float) -> str:
    """Told of the host that is due first: until then nothing is asked for."""
    soonest = min((row for row in rows if row.next_due), key=lambda row: row.next_due, default=None)
    if soonest is None or soonest.next_due <= now or not soonest.next_host:
        return ""
    said = sentence({"for": soonest.next_why or "turn", "until": soonest.next_due}, now, soonest.next_host)
    host = "" if soonest.next_host in said else f"{soonest.next_host}: "
    return f"every host waits, the first of them for this: {host}{said}"


def _sum(rows: tuple[Progress, ...], name: str) -> int:
    return sum(getattr(row, name) for row in rows)


def _merge(rows: tuple[Progress, ...], name: str) -> dict[str, int]:
    total: Counter[str] = Counter()
    for row in rows:
        total.update(getattr(row, name))
    return dict(sorted(total.items()))


def as_lines(status: Status) -> list[str]:
    """For people."""
    lines = [
        "complete" if status.complete else _head(status),
        *([f"why: {status.why}"] if status.why else []),
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


def _head(status: Status) -> str:
    """A crawl that was killed while it ran is not running, whatever it is meant to do."""
    words = [status.mode] if status.running or status.mode == "paused" else []
    words += [] if status.running else ["not running"]
    return f"{', '.join(words)}, not complete: {status.waiting_for.removeprefix(f'{status.mode}; ')}"


def as_json(status: Status) -> dict[str, Any]:
    return {name: getattr(status, name) for name in status.__struct_fields__}
