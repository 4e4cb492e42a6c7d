"""What must hold after the torture, each with its figure: by the web's own model and log, not by the crawler's word."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard
from msgspec import Struct

from benchmarks.figures import Figure
from benchmarks.torture.repeats import repeats
from benchmarks.torture.storm import Met, Outcome
from benchmarks.web.expected import Expected, Walk
from benchmarks.web.log import Request, gaps, too_soon

STATES = ("queued", "in_flight", "fetched", "redirected", "failed", "refused")
SLACK = 0.9
"""Share of the delay that a gap must have at the least: arrivals are stamped late when the machine is busy."""
_OVER = 10.0
"""Seconds after its time in which a crawl is ended."""

Row = Mapping[str, Any]


class Evidence(Struct, frozen=True, kw_only=True):
    walk: Walk
    rows: Sequence[Row]
    workspace: Path
    status: Mapping[str, Any]
    requests: Sequence[Request]
    port: int
    delay: float
    met: Sequence[Met]
    excusing: Sequence[str]
    """Whose faults can make a request be repeated: of those that make requests, and of brokers."""
    kills: int = 0
    """At the least."""
    audit: Mapping[str, Any] | None = None
    """What `headrace frontier check` said; embedded only."""


def judged(case: str, evidence: Evidence) -> list[Figure]:
    parts: tuple[Callable[[str, Evidence], list[Figure]], ...] = (faults, rows, bodies, counters, requests, politeness)
    return [figure for part in parts for figure in part(case, evidence)]


def course(case: str, outcome: Outcome, *, bound: float, left: int) -> list[Figure]:
    """How the run itself went."""
    return [
        Figure(case, "not complete in time", int(bool(outcome.hung)), "crawls", "== 0", outcome.hung[:300]),
        Figure(case, "took", outcome.seconds, "s", f"<= {bound + _OVER:g}"),
        Figure(case, "ended by themselves", len(outcome.died), "processes", "== 0", _few(outcome.died)),
        Figure(case, "outlived their parents", left, "processes", "== 0"),
    ]


def faults(case: str, evidence: Evidence) -> list[Figure]:
    """Only what was done while there was something to disturb."""
    last = max((request.t for request in evidence.requests), default=0.0)
    met = [fault for fault in evidence.met if fault.began < last]
    kinds = Counter(fault.what for fault in met)
    figures = []
    for what, word, bar in (
        ("kill", "killed while it crawled", f">= {evidence.kills}"),
        ("stop", "paused while it crawled", ""),
    ):
        who = Counter(fault.who.split()[0] for fault in met if fault.what == what)
        note = ", ".join(f"{name} {count}" for name, count in sorted(who.items()))
        figures.append(Figure(case, word, kinds[what], "times", bar, note))
    return figures


# ---- the index -------------------------------------------------------------------------------------------------------


def rows(case: str, evidence: Evidence) -> list[Figure]:
    """Every URL that a perfect crawl requests has one row that says what the web said; nothing else has."""
    by_spelling, found = _by_spelling(evidence), Counter[str]()
    strange, wrong, refused = [], [], set()
    for row in evidence.rows:
        page = by_spelling.get(row["url"])
        if page is not None:
            found[page.url] += 1
            if not _as_served(row, page):
                wrong.append(row["url"])
        elif row["url"] in evidence.walk.refused and not row["http_status"]:
            refused.add(row["url"])
        else:
            strange.append(row["url"])
    lost = [page.url for page in evidence.walk.requested if page.url not in found]
    twice = [url for url, times in found.items() if times > 1]
    wanted = f"of {len(evidence.walk.requested):,}"
    return [
        Figure(case, "URLs without a row", len(lost), "URLs", "== 0", _few(lost) or wanted),
        Figure(case, "URLs with two rows", len(twice), "URLs", "== 0", _few(twice)),
        Figure(case, "rows of nothing that was served", len(strange), "rows", "== 0", _few(strange)),
        Figure(case, "rows with a wrong status, hash or size", len(wrong), "rows", "== 0", _few(wrong)),
    ]


def _as_served(row: Row, page: Expected) -> bool:
    if row["http_status"] != page.status:
        return False
    return not _has_body(page) or (row["content_sha256"], row["content_bytes"]) == (page.sha256, page.size)


def _has_body(page: Expected) -> bool:
    return page.status == 200 and page.content_type == "text/html"


def bodies(case: str, evidence: Evidence) -> list[Figure]:
    """Read from the store, and hashed again."""
    by_spelling, damaged, read = _by_spelling(evidence), [], 0
    for row in evidence.rows:
        page = by_spelling.get(row["url"])
        if page is not None and _has_body(page):
            read += 1
            if _hash_of(evidence.workspace, row["stored_path"]) != page.sha256:
                damaged.append(row["url"])
    return [
        Figure(case, "bodies that are not as served", len(damaged), "bodies", "== 0", _few(damaged) or f"of {read:,}")
    ]


def _hash_of(workspace: Path, path: str | None) -> str:
    """Empty if it cannot be read."""
    if not path:
        return ""
    try:
        body = zstandard.ZstdDecompressor().decompressobj().decompress((workspace / path).read_bytes())
    except (OSError, zstandard.ZstdError):
        return ""
    return hashlib.sha256(body).hexdigest()


# ---- the frontier's counters -----------------------------------------------------------------------------------------


def counters(case: str, evidence: Evidence) -> list[Figure]:
    """Nothing counted twice, nothing forgotten, nothing left to do."""
    status, walk = evidence.status, evidence.walk
    served = Counter(_state(row["http_status"]) for row in evidence.rows if row["url"] not in walk.refused)
    wanted = {"fetched": served["fetched"], "redirected": served["redirected"], "failed": served["failed"]}
    wanted |= {"refused": len(walk.refused)}
    off = {name: f"{name} {status[name]} for {count}" for name, count in wanted.items() if status[name] != count}
    difference = status["discovered"] - sum(status[name] for name in STATES)
    behind = sum(status["lag"].values())
    figures = [
        Figure(case, "discovered less the sum of states", difference, "URLs", "== 0", f"of {status['discovered']:,}"),
        Figure(case, "counters that differ from the rows", len(off), "of 4", "== 0", ", ".join(off.values())),
        Figure(case, "still queued or in flight", status["queued"] + status["in_flight"], "URLs", "== 0"),
        Figure(case, "lag", behind, "messages", "== 0", ", ".join(status["lag"])),
    ]
    if evidence.audit is not None:
        said = _few(evidence.audit["differences"]) or f"{evidence.audit['urls']:,} URLs recounted"
        figures.append(Figure(case, "differences in `frontier check`", evidence.audit["count"], "", "== 0", said))
    return figures


def _state(status: int) -> str:
    if 200 <= status < 300 or status == 304:
        return "fetched"
    return "redirected" if 300 <= status < 400 else "failed"


# ---- the web's log ---------------------------------------------------------------------------------------------------


def requests(case: str, evidence: Evidence) -> list[Figure]:
    excuses = [met for met in evidence.met if met.who.split()[0] in evidence.excusing]
    found = repeats(evidence.requests, excuses, evidence.port)
    forbidden = {*evidence.walk.refused} & {f"http://{r.ip}:{evidence.port}{r.path}" for r in evidence.requests}
    unexplained = [f"{repeat.url} after {repeat.after - repeat.before:.2f} s" for repeat in found.unexplained]
    share = len(found.found) / max(1, len(evidence.requests))
    return [
        Figure(case, "repeats that no fault explains", len(unexplained), "requests", "== 0", _few(unexplained)),
        Figure(case, "repeats", len(found.found), "requests", "", f"{share:.1%}; URLs × requests: {found.histogram()}"),
        Figure(case, "most repeats of one fault", found.most_of_one_fault, "requests"),
        Figure(case, "requests robots.txt forbids", len(forbidden), "requests", "== 0", _few(forbidden)),
    ]


def politeness(case: str, evidence: Evidence) -> list[Figure]:
    between = gaps(evidence.requests)
    short = too_soon(between, lambda ip: evidence.delay, SLACK)
    said = [f"{gap.seconds:.3f} s at {gap.ip}{gap.path}" for gap in short]
    smallest = between[0].seconds if between else evidence.delay
    note = f"of {len(between):,}; owed {evidence.delay:g} s"
    return [
        Figure(case, "gaps under the delay", len(short), "gaps", "== 0", _few(said) or note),
        Figure(case, "smallest gap", smallest, "s", f">= {SLACK * evidence.delay:g}"),
    ]


def _by_spelling(evidence: Evidence) -> dict[str, Expected]:
    return {spelling: page for page in evidence.walk.requested for spelling in page.spellings}


def _few(lines: Iterable[str]) -> str:
    return "; ".join(sorted(lines)[:2])
