import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace_runtime.streams.kafka.engine import KafkaStreams
from headrace_runtime.streams.kafka.topics import create_topics
from headrace_runtime.streams.open import brokers_of
from tests.kafka.place import Place


@pytest.fixture
async def empty_place(kafka_url: str, tmp_path: Path) -> Place:
    """No topics yet."""
    return Place(brokers_of(kafka_url), f"k{uuid.uuid4().hex[:10]}.", tmp_path)


@pytest.fixture
async def place(empty_place: Place) -> Place:
    await create_topics(empty_place.brokers, empty_place.prefix, empty_place.partitions, 1)
    return empty_place


@pytest.fixture
async def streams(place: Place) -> AsyncIterator[KafkaStreams]:
    async with place.opened() as streams:
        yield streams
