"""Scrapy with JOBDIR on the same web, killed as often: what it lost and what it fetched twice. Nothing has a bar.

Then once more, asked to stop (Ctrl-C) a third as often, which is what JOBDIR is made for: how much of it is the kill.
"""

import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import structs

from benchmarks.figures import Figure
from benchmarks.torture import run
from benchmarks.torture.command import Failed
from benchmarks.torture.fleet import Fleet, Process
from benchmarks.torture.judge import SLACK
from benchmarks.torture.order import Order
from benchmarks.torture.plan import plan
from benchmarks.torture.repeats import repeats
from benchmarks.torture.storm import Asked, Outcome, Storm
from benchmarks.web.log import gaps, too_soon
from benchmarks.web.running import RunningWeb

_PEER = Path(__file__).with_name("scrapy_peer.py")
_DOWN = (0.0, 0.0, 0.2)


def case(order: Order, folder: Path) -> list[Figure]:
    if order.peers is None:
        raise Failed("scrapy: --peers names the Python that has it (make torture does)")
    asked = structs.replace(order, kills=order.kills // 3)  # each takes its time
    killed = _crawl("scrapy killed", order, folder / "killed")
    return [*killed, *_crawl("scrapy asked to stop", asked, folder / "asked", gently=True)]


def _crawl(name: str, order: Order, folder: Path, *, gently: bool = False) -> list[Figure]:
    folder.mkdir()
    with RunningWeb(order.web, folder=folder) as web:
        requests = run.requests_of(web)
        faults = plan(
            run.dice(order, "scrapy"), requests, ["scrapy"], kills=order.kills, stops=0, down=_DOWN, paused=()
        )
        run.tell(name, order, faults)
        rows = folder / "rows.jsonl"
        command = [order.peers, _PEER, folder / "job", rows, order.delay, *web.seeds()]
        fleet = Fleet([Process("scrapy", list(map(str, command)), os.environ, folder, whole=True, gently=gently)])
        with fleet:
            storm = Storm(fleet.processes, faults, Asked(web.log), str, order.seconds, finishing=True)
            outcome = storm.run()
        (folder / "met.jsonl").write_text("".join(json.dumps(structs.asdict(met)) + "\n" for met in outcome.met))
        return _figures(name, order, web, outcome, _rows(rows))


def _rows(path: Path) -> list[dict[str, Any]]:
    """A line that a kill cut short is no row."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return found


def _figures(
    name: str, order: Order, web: RunningWeb, outcome: Outcome, rows: Sequence[dict[str, Any]]
) -> list[Figure]:
    """Of pages only: it makes no rows of redirects and errors."""
    wanted = [page for page in web.expected() if page.status == 200 and page.content_type == "text/html"]
    found, times = {row["sha256"] for row in rows}, Counter(row["url"] for row in rows)
    lost = [page for page in wanted if page.sha256 not in found]
    requests = web.requests()
    again = repeats(requests, outcome.met, web.port, str)  # it takes every spelling for a page of its own
    between = gaps(requests)
    short = too_soon(between, lambda ip: order.delay, SLACK)
    end = outcome.hung or "it ended by itself, taking the crawl for complete"
    return [
        Figure(name, "ended by us", len(outcome.met), "times", "", f"of {order.kills}: {end}"[:300]),
        Figure(name, "took", outcome.seconds, "s"),
        Figure(name, "ended by itself with an error", len(outcome.died), "times", "", "; ".join(outcome.died)[:200]),
        Figure(name, "pages lost", len(lost), "pages", "", f"of {len(wanted):,}"),
        Figure(name, "pages with two rows", sum(count > 1 for count in times.values()), "pages"),
        Figure(name, "repeats", len(again.found), "requests", "", f"URLs × requests: {again.histogram()}"),
        Figure(name, "gaps under the delay", len(short), "gaps", "", f"of {len(between):,}"),
        Figure(name, "smallest gap", between[0].seconds if between else order.delay, "s"),
    ]
