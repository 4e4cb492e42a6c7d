"""The broker dies and comes back: work waits, then goes on; nothing is lost and nothing is settled twice."""

import asyncio
import io
import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.kafka.broker import Broker
from deploy.kafka.jars import CannotRun
from headrace_runtime import logs
from headrace_runtime.endpoint import new_registry
from headrace_runtime.service import Service
from headrace_runtime.streams.kafka import chatter
from headrace_runtime.streams.kafka.topics import create_topics
from headrace_runtime.streams.seams import Send
from headrace_runtime.supervisor import Supervisor
from tests.contract.ledger import LINKS, RESULTS, TASKS, World, check, serve_fetcher, serve_ledger, until_complete
from tests.contract.serving import Reader, serving, until
from tests.kafka.place import Place

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """One of our own: it is killed."""
    try:
        with Broker() as broker:
            yield broker
    except CannotRun as error:
        pytest.skip(str(error))


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Warnings as a process writes them. The last one was not long ago, in another test: it is to say all anew."""
    stream, root = io.StringIO(), logging.getLogger()
    before = root.level, list(root.handlers)
    logs.setup("human", "warning", stream)
    chatter.log = logs.get_logger("streams")
    yield stream
    root.setLevel(before[0])
    root.handlers[:] = before[1]


async def _back(broker: Broker) -> None:
    await asyncio.to_thread(broker.start)


async def test_a_broker_killed_in_the_middle_costs_only_time(broker: Broker, tmp_path: Path) -> None:
    place = Place([broker.address], "outage.", tmp_path)
    await create_topics(place.brokers, place.prefix, place.partitions, 1)
    world = World(place.partitions, urls=300)
    async with place.opened() as streams:
        await streams.publish(world.links())
        async with (
            serving(streams, "frontier", [LINKS, RESULTS], serve_ledger, stateful=True),
            serving(streams, "fetcher", [TASKS], serve_fetcher(0.02)) as fetcher,
        ):
            await until(lambda: fetcher.lanes)
            await asyncio.sleep(0.5)
            broker.kill()
            lanes = list(fetcher.lanes)
            await until(lambda: not any(lane.owned() for lane in lanes), "lanes that know they may have lost it all")
            await _back(broker)
            await until_complete(streams)
        await check(streams, world, exact=False)


async def test_what_is_published_while_the_broker_is_away_arrives_once(broker: Broker, tmp_path: Path) -> None:
    place = Place([broker.address], "away.", tmp_path)
    await create_topics(place.brokers, place.prefix, place.partitions, 1)
    async with place.opened() as streams:
        await streams.publish([Send(TASKS, 0, b"before")])
        broker.kill()
        publishing = asyncio.create_task(streams.publish([Send(TASKS, 0, b"%d" % i) for i in range(100)]))
        await asyncio.sleep(0.5)
        await _back(broker)
        await publishing
        reader = Reader()
        async with serving(streams, "fetcher", [TASKS], reader.serve):
            await until(lambda: len(reader.records) >= 101)
    assert reader.values() == [b"before", *(b"%d" % i for i in range(100))]


async def test_an_outage_is_a_few_lines_a_process_not_ready_and_a_heartbeat_that_stands_still(
    broker: Broker, tmp_path: Path, log: io.StringIO
) -> None:
    place = Place([broker.address], "quiet.", tmp_path)
    await create_topics(place.brokers, place.prefix, place.partitions, 1)
    registry, stop = new_registry(), asyncio.Event()
    services = [
        Service("frontier", [LINKS, RESULTS], serve_ledger, stateful=True),
        Service("fetcher", [TASKS], serve_fetcher(0.02)),
    ]

    def behind(service: str) -> float:
        """Seconds since the heartbeat."""
        name = "headrace_heartbeat_timestamp_seconds"
        return time.time() - (registry.get_sample_value(name, {"service": service}) or 0.0)

    def lanes() -> float:
        return sum(registry.get_sample_value("headrace_lanes", {"group": service.group}) or 0 for service in services)

    async with place.opened() as streams:
        supervisor = Supervisor(streams, services, shutdown_timeout=10.0, registry=registry)
        running = asyncio.create_task(supervisor.run(stop))
        await until(lambda: lanes() == 4)
        assert supervisor.ready() == (True, "running")
        log.seek(0)
        log.truncate()
        broker.kill()
        await until(lambda: not supervisor.ready()[0])
        assert "no answer from Kafka for" in supervisor.ready()[1]
        await until(lambda: behind("frontier") > 2 * place.session and behind("fetcher") > 2 * place.session)
        said = log.getvalue().splitlines()
        assert any("Unable connect to node" in line for line in said), said
        assert len(said) <= 12, said
        await _back(broker)
        await until(lambda: supervisor.ready()[0] and behind("frontier") < 2 and behind("fetcher") < 2 and lanes() == 4)
        stop.set()
        await running
