"""The broker dies and comes back: work waits, then goes on; nothing is lost and nothing is settled twice."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.kafka.broker import Broker
from deploy.kafka.jars import CannotRun
from headrace_runtime.streams.kafka.topics import create_topics
from headrace_runtime.streams.seams import Send
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
