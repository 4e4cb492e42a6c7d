"""The janitor deletes what all groups have read and is old enough, and nothing else, on a real broker."""

import asyncio
import time

import pytest

from headrace_runtime.clock import Deadline
from headrace_runtime.streams.kafka.engine import KafkaStreams
from headrace_runtime.streams.seams import Send
from headrace_schemas.errors import FatalError
from headrace_schemas.topics import kept_after_read
from tests.contract.serving import PATIENCE, Reader, read, serving
from tests.kafka.place import Place

pytestmark = pytest.mark.kafka

KEEP = 3_600.0
PAGES = "pages.fetched"


def always() -> bool:
    return True


async def append(place: Place, topic: str, count: int, *, partition: int = 0, age: float = 0.0) -> None:
    async with place.producer() as producer:
        for number in range(count):
            await producer.send_and_wait(
                place.prefix + topic,
                b"%d" % number,
                partition=partition,
                timestamp_ms=int((time.time() - age) * 1000),
            )


async def read_some(streams: KafkaStreams, group: str, topic: str, count: int) -> None:
    """`count` of partition 0 are committed, and no more."""
    reader = Reader(done=lambda record: record.partition == 0 and record.offset < count)
    async with serving(streams, group, [topic], reader.serve):
        deadline = Deadline(PATIENCE)
        while next(edge.committed for edge in await streams.edges([(topic, group)])) != count:
            assert not deadline.passed
            await asyncio.sleep(0.05)


async def test_only_what_every_group_has_read_and_is_old_goes(place: Place, streams: KafkaStreams) -> None:
    await append(place, PAGES, 10, age=2 * KEEP)
    await append(place, PAGES, 5)
    await append(place, PAGES, 4, partition=1, age=2 * KEEP)

    assert await streams.trim({PAGES: KEEP}, always) == {PAGES: 0}, "nobody has read anything, however old it is"
    await read(streams, "parser", [PAGES], 19)
    assert await streams.trim({PAGES: KEEP}, always) == {PAGES: 0}, "the storer has never committed"
    await read_some(streams, "storer", PAGES, 6)
    assert await streams.trim({PAGES: KEEP}, always) == {PAGES: 6}, "no further than the slower group"
    assert await streams.begins(PAGES) == [6, 0]
    await read(streams, "storer", [PAGES], 13)
    assert await streams.trim({PAGES: KEEP}, always) == {PAGES: 8}, "the young ones stay"
    assert await streams.begins(PAGES) == [10, 4]
    assert await streams.trim({PAGES: KEEP}, always) == {PAGES: 0}
    assert [record.offset for record in await place.read_all(PAGES)] == [10, 11, 12, 13, 14]


async def test_markers_of_transactions_go_too_and_the_group_reads_on(place: Place, streams: KafkaStreams) -> None:
    topic = "urls.to_fetch"
    async with place.producer("janitor-test") as producer:
        for _ in range(2):
            async with producer.transaction():
                for number in range(3):
                    await producer.send(place.prefix + topic, b"%d" % number, partition=0)
        await read(streams, "fetcher", [topic], 6)
        assert await streams.trim({topic: 0.0}, always) == {topic: 8}
        await producer.begin_transaction()
        await producer.send_and_wait(place.prefix + topic, b"open", partition=0)
        assert await streams.trim({topic: 0.0}, always) == {topic: 0}, "what is not committed is nobody's yet"
        await producer.commit_transaction()
    assert [record.value for record in await read(streams, "fetcher", [topic], 1)] == [b"open"]


async def test_a_group_that_starts_anew_starts_where_the_topic_is_kept_from(
    place: Place, streams: KafkaStreams
) -> None:
    await append(place, PAGES, 6, age=2 * KEEP)
    for group in ("parser", "storer"):
        await read(streams, group, [PAGES], 6)
    await append(place, PAGES, 2)
    await streams.trim({PAGES: KEEP}, always)
    assert [record.offset for record in await read(streams, "replay", [PAGES], 2)] == [6, 7]


async def test_tables_changelogs_and_dead_letters_are_not_its_business(streams: KafkaStreams) -> None:
    assert set(kept_after_read(0)) == {
        "links.discovered",
        "urls.to_fetch",
        "pages.fetched",
        "fetch.results",
        "pages.parsed",
        "frontier.budget",
    }
    for topic in ("crawl.control", "crawl.progress", "frontier.changelog", "dead.letters"):
        with pytest.raises(FatalError, match=f"{topic} is"):
            await streams.trim({topic: 0.0}, always)


async def test_it_ends_between_two_topics_once_the_partition_is_gone(place: Place, streams: KafkaStreams) -> None:
    for topic, group in (("urls.to_fetch", "fetcher"), ("pages.parsed", "storer")):
        await streams.publish([Send(topic, 0, b"old")])
        await read(streams, group, [topic], 1)
    answers = iter([True, False])
    assert await streams.trim({"urls.to_fetch": 0.0, "pages.parsed": 0.0}, lambda: next(answers)) == {
        "urls.to_fetch": 1
    }
    assert await streams.begins("pages.parsed") == [0, 0]
