"""Every contract test runs on each engine."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace_runtime.streams.seams import Streams
from tests.contract.engines import EmbeddedEngine, Engine


@pytest.fixture(params=["embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Engine]:
    if request.param == "embedded":
        yield EmbeddedEngine(tmp_path)
        return
    from tests.contract.kafka_harness import kafka_engine  # only where it is asked for: it brings aiokafka along

    async with kafka_engine(tmp_path, request.getfixturevalue("kafka_url")) as engine:
        yield engine


@pytest.fixture
async def streams(engine: Engine) -> AsyncIterator[Streams]:
    async with engine.opened() as streams:
        yield streams
