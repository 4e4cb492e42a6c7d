"""What the cases have in common: what is told while one runs, and the evidence that is left of it."""

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from benchmarks.figures import Figure
from benchmarks.torture import judge
from benchmarks.torture.command import Crawl, Failed
from benchmarks.torture.judge import Evidence
from benchmarks.torture.order import Order
from benchmarks.torture.plan import Fault
from benchmarks.torture.storm import Outcome
from benchmarks.web.running import RunningWeb


def dice(order: Order, case: str) -> random.Random:
    return random.Random(f"{case} {order.seed}")


def requests_of(web: RunningWeb) -> int:
    """As many as an undisturbed crawl makes."""
    return len(web.expected()) + web.spec.hosts


def tell(case: str, order: Order, plan: Sequence[Fault]) -> None:
    print(
        f"{case}: seed {order.seed}, {order.web.hosts} hosts of {order.web.pages} pages, {len(plan)} faults", flush=True
    )
    for number, fault in enumerate(plan, 1):
        print(f"  {number:>2}  {fault}", flush=True)


def hung_on(status: Mapping[str, Any]) -> str:
    """Empty once it is complete."""
    if status["complete"]:
        return ""
    counts = ", ".join(f"{name} {status[name]}" for name in judge.STATES)
    return f"{status['why'] or status['waiting_for']}; {counts}; lag {json.dumps(status['lag'])}"


def evidence(
    crawl: Crawl, web: RunningWeb, order: Order, outcome: Outcome, excusing: Sequence[str], *, audited: bool = False
) -> Evidence:
    """`excusing`: whose faults can make a request be repeated, by the first word of the name. What was met is written
    down beside the logs, on the web's clock."""
    (crawl.folder / "met.jsonl").write_text("".join(json.dumps(structs.asdict(met)) + "\n" for met in outcome.met))
    return Evidence(
        walk=web.walk(),
        rows=crawl.rows(),
        workspace=crawl.workspace,
        status=crawl.status(),
        requests=web.requests(),
        port=web.port,
        delay=order.delay,
        met=outcome.met,
        excusing=excusing,
        kills=order.kills,
        audit=crawl.audit() if audited else None,
    )


def verdict(case: str, found: Evidence | Failed, outcome: Outcome, order: Order, left: int) -> list[Figure]:
    figures = judge.course(case, outcome, bound=order.seconds, left=left)
    if isinstance(found, Failed):
        return [*figures, Figure(case, "nothing to judge", 1, "", "== 0", str(found))]
    return [*figures, *judge.judged(case, found)]
