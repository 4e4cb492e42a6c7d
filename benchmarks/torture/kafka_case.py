"""Services as processes of their own on Kafka; any of them is killed, or paused for less or more than its session."""

import uuid
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.torture import run
from benchmarks.torture.command import Crawl, Failed, common
from benchmarks.torture.fleet import Fleet, Process, Target
from benchmarks.torture.judge import Evidence
from benchmarks.torture.order import Order
from benchmarks.torture.plan import Fault, plan
from benchmarks.torture.storm import Asked, Storm
from benchmarks.web.running import RunningWeb
from deploy.kafka.nodes import Nodes

SERVICES = ("frontier 1", "frontier 2", "fetcher 1", "fetcher 2", "parser 1", "storer 1")
SESSION = 6.0
DOWN = (0.0, 0.0, 0.3, 1.0, SESSION + 2)
"""Mostly back at once, as under a supervisor; now and then so late that another takes over."""
PAUSED = (1.5, SESSION + 3)
_PARTITIONS = 8


def case(order: Order, folder: Path) -> list[Figure]:
    with RunningWeb(order.web, folder=folder) as web, Nodes(1) as nodes:
        faults = services_plan(order, web, "kafka", kills=order.kills, stops=order.kills // 5)
        return tortured("kafka", order, folder, web, nodes.url, faults)


def services_plan(order: Order, web: RunningWeb, name: str, *, kills: int, stops: int) -> list[Fault]:
    requests = run.requests_of(web)
    return plan(run.dice(order, name), requests, SERVICES, kills=kills, stops=stops, down=DOWN, paused=PAUSED)


def tortured(
    name: str,
    order: Order,
    folder: Path,
    web: RunningWeb,
    url: str,
    faults: Sequence[Fault],
    *,
    others: Sequence[Target] = (),
    replication: int = 1,
) -> list[Figure]:
    """`others`: targets beside the services, which live and end with the caller."""
    run.tell(name, order, faults)
    crawl = Crawl(
        folder,
        **common(order.delay),
        HEADRACE_STREAMS__URL=url,
        HEADRACE_STREAMS__PREFIX=f"torture-{uuid.uuid4().hex[:8]}.",
        HEADRACE_STREAMS__PARTITIONS=str(_PARTITIONS),
        HEADRACE_STREAMS__REPLICATION=str(replication),
        HEADRACE_STREAMS__SESSION_TIMEOUT=f"{SESSION:g}",
        HEADRACE_STREAMS__KEEP="5",  # so that the janitor is at work all the while, and is killed with its frontier
        HEADRACE_STREAMS__JANITOR_INTERVAL="1",
    )
    crawl.run("topics", "create")
    fleet = Fleet([Process(who, crawl.command("run", who.split()[0]), crawl.environment, folder) for who in SERVICES])

    def unfinished() -> str:
        try:
            return run.hung_on(crawl.status())
        except Failed as error:
            return str(error)

    storm = Storm([*fleet.processes, *others], faults, Asked(web.log), unfinished, order.seconds)
    with fleet:
        crawl.run("seed", *web.seeds())
        outcome = storm.run()
    found: Evidence | Failed
    try:
        found = run.evidence(crawl, web, order, outcome, ("fetcher", "broker"))
    except Failed as error:
        found = error
    return run.verdict(name, found, outcome, order, fleet.left)
