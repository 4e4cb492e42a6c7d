"""`headrace crawl` on the embedded log: one process holds everything, and all of it is killed at once."""

from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.torture import run
from benchmarks.torture.command import Crawl, Failed, common
from benchmarks.torture.fleet import Fleet, Process
from benchmarks.torture.judge import Evidence
from benchmarks.torture.order import Order
from benchmarks.torture.plan import plan
from benchmarks.torture.storm import Asked, Storm
from benchmarks.web.running import RunningWeb

_DOWN = (0.0, 0.0, 0.2)
_PAUSED = (0.7, 3.0)


def case(order: Order, folder: Path) -> list[Figure]:
    with RunningWeb(order.web, folder=folder) as web:
        return tortured(order, folder, web)


def tortured(order: Order, folder: Path, web: RunningWeb) -> list[Figure]:
    requests, stops = run.requests_of(web), order.kills // 10
    faults = plan(
        run.dice(order, "embedded"), requests, ["crawl"], kills=order.kills, stops=stops, down=_DOWN, paused=_PAUSED
    )
    run.tell("embedded", order, faults)
    crawl = Crawl(folder, **common(order.delay))
    process = Process("crawl", crawl.command("crawl", *web.seeds()), crawl.environment, folder, whole=True)

    def unfinished() -> str:
        try:
            return run.hung_on(crawl.status())
        except Failed as error:
            return str(error)

    fleet = Fleet([process])
    with fleet:
        outcome = Storm([process], faults, Asked(web.log), unfinished, order.seconds, finishing=True).run()
    found: Evidence | Failed
    try:
        found = run.evidence(crawl, web, order, outcome, ("crawl",), audited=True)
    except Failed as error:
        found = error
    return run.verdict("embedded", found, outcome, order, fleet.left)
