"""Topics are made from the topic table, once, and a process that was told otherwise does not start."""

from typing import Any

import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from headrace_runtime.streams.kafka.topics import create_topics, delete_topics
from headrace_runtime.streams.seams import Send
from headrace_schemas.errors import FatalError, HeadraceError, LayoutMismatch
from headrace_schemas.topics import TOPICS
from tests.contract.serving import Reader, read
from tests.kafka.place import Place

pytestmark = pytest.mark.kafka


async def configs(place: Place, topic: str) -> dict[str, str]:
    async with place.admin() as admin:
        (answer,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, place.prefix + topic)])
    rows: list[Any] = answer.resources[0][4]
    return {row[0]: row[1] for row in rows}


async def test_topics_are_created_once_and_answer_at_once(empty_place: Place) -> None:
    where = (empty_place.brokers, empty_place.prefix, 2, 1)
    assert await create_topics(*where) == list(TOPICS)
    async with empty_place.opened() as streams:
        await streams.publish([Send(name, 0, b"first", b"key") for name in TOPICS])
    assert await create_topics(*where) == []


async def test_each_kind_of_topic_is_kept_as_the_table_says(place: Place) -> None:
    work = await configs(place, "urls.to_fetch")
    assert (work["cleanup.policy"], work["retention.ms"], work["max.message.bytes"]) == ("delete", "-1", str(16 << 20))
    changelog = await configs(place, "frontier.changelog")
    assert (changelog["cleanup.policy"], changelog["delete.retention.ms"]) == ("compact", str(7 * 86_400_000))
    assert (await configs(place, "crawl.control"))["cleanup.policy"] == "compact"
    assert (await configs(place, "dead.letters"))["retention.ms"] == str(30 * 86_400_000)


async def test_another_number_of_partitions_is_refused_naming_both(place: Place) -> None:
    with pytest.raises(LayoutMismatch, match=r"has 2 partitions, this process was told 5"):
        await create_topics(place.brokers, place.prefix, 5, 1)
    async with place.opened(partitions=5) as streams:
        with pytest.raises(LayoutMismatch, match=r"has 2 partitions, this process was told 5"):
            await streams.join("fetcher", ["urls.to_fetch"], Reader().serve)


async def test_a_service_without_its_topics_says_how_to_make_them(empty_place: Place) -> None:
    async with empty_place.opened() as streams:
        with pytest.raises(FatalError, match="run: headrace topics create"):
            await streams.join("fetcher", ["urls.to_fetch"], Reader().serve)
        with pytest.raises(FatalError, match="run: headrace topics create"):
            await streams.publish([Send("urls.to_fetch", 0, b"")])
        with pytest.raises(FatalError, match="run: headrace topics create"):
            await streams.table("crawl.control")
    async with empty_place.admin() as admin:
        there = await admin.list_topics()
    assert not [name for name in there if name.startswith(empty_place.prefix)], "asking did not create them"


async def test_more_copies_than_brokers_is_an_error_although_the_client_raises_none(empty_place: Place) -> None:
    with pytest.raises(HeadraceError, match="creating topic"):
        await create_topics(empty_place.brokers, empty_place.prefix, 2, 7)


async def test_deleted_topics_take_with_them_what_groups_had_read(place: Place) -> None:
    async with place.opened() as streams:
        await streams.publish([Send("pages.fetched", i % 2, b"page") for i in range(10)])
        await read(streams, "parser", ["pages.fetched"], 10)
    assert set(await delete_topics(place.brokers, place.prefix)) == set(TOPICS)
    assert await delete_topics(place.brokers, place.prefix) == []

    await create_topics(place.brokers, place.prefix, 2, 1)
    async with place.opened() as streams:
        await streams.publish([Send("pages.fetched", 0, b"another")])
        edges = await streams.edges([("pages.fetched", "parser")])
        assert [(edge.committed, edge.end) for edge in edges] == [(0, 1), (0, 0)]
