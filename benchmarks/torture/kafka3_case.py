"""The same on three nodes with three copies of everything, two of which must agree: brokers die and hang as well."""

import asyncio
import time
from pathlib import Path

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from benchmarks.figures import Figure
from benchmarks.torture import run
from benchmarks.torture.fleet import Node
from benchmarks.torture.kafka_case import services_plan, tortured
from benchmarks.torture.order import Order
from benchmarks.torture.plan import merged, plan
from benchmarks.web.running import RunningWeb
from deploy.kafka.broker import answers
from deploy.kafka.nodes import Nodes

_NODES = 3
_DOWN = (0.0, 2.0, 5.0)
_PAUSED = (8.0,)
"""Past the session of a broker (3 s): the others elect new leaders, and it wakes to find that it leads nothing."""
_LAST = 0.6
"""They wait for one another, and must all be met before the crawl ends."""
_LOOK = 0.5
_STEADY = 1.5
_ANSWER_SECONDS = 5.0


class Copies:
    """Whether every node answers and every copy of every partition is in sync, for a while: only then may the next
    broker go. For a while, since one that was paused shows for a moment what was so before."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._looked = 0.0
        self._since: float | None = None

    def __call__(self) -> bool:
        now = time.monotonic()
        if now < self._looked + _LOOK:
            return False
        good = self._look()
        self._looked = time.monotonic()
        if not good:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now >= self._since + _STEADY:
            self._since = None
            return True
        return False

    def _look(self) -> bool:
        ports = self._nodes[1].quorum.nodes
        brokers = [broker.address for broker in self._nodes.brokers]
        return all(answers(port.client) for port in ports) and asyncio.run(_in_sync(brokers))


async def _in_sync(brokers: list[str]) -> bool:
    admin = AIOKafkaAdminClient(bootstrap_servers=brokers, request_timeout_ms=int(_ANSWER_SECONDS * 1000))
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            await admin.start()
            topics = await admin.describe_topics()
    except (KafkaError, OSError, TimeoutError):
        return False
    finally:
        await admin.close()
    partitions = [partition for topic in topics for partition in topic["partitions"]]
    return bool(partitions) and all(len(each["isr"]) == _NODES for each in partitions)


def case(order: Order, folder: Path) -> list[Figure]:
    """A fifth of the kills are of brokers, and two pauses."""
    of_brokers = max(1, order.kills // 5)
    with RunningWeb(order.web, folder=folder) as web, Nodes(_NODES) as nodes:
        copies = Copies(nodes)
        others = [Node(broker, copies) for broker in nodes.brokers]
        faults = merged(
            services_plan(order, web, "kafka3", kills=order.kills - of_brokers, stops=order.kills // 10),
            plan(
                run.dice(order, "brokers"),
                run.requests_of(web),
                [node.name for node in others],
                kills=of_brokers,
                stops=2,
                down=_DOWN,
                paused=_PAUSED,
                last=_LAST,
            ),
        )
        return tortured("kafka3", order, folder, web, nodes.url, faults, others=others, replication=_NODES)
