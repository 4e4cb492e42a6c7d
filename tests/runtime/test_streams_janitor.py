"""The janitor's own life: beside the lane of partition 0 alone, for as long as that is served, and in nobody's way."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from headrace_runtime.clock import Deadline, SystemClock
from headrace_runtime.streams.embedded.engine import EmbeddedStreams
from headrace_runtime.streams.janitor import Janitor
from headrace_schemas.errors import Unavailable
from tests.runtime.waiting import until

KEEP = {"urls.to_fetch": 0.0}


@dataclass
class FakeLane:
    partition: int
    stopping: Deadline | None = None
    is_owned: bool = True

    def owned(self) -> bool:
        return self.is_owned


class Broker:
    """Counts passes; does not answer, for a while."""

    def __init__(self) -> None:
        self.passes, self.is_away = 0, False
        self.allowed: list[bool] = []

    async def trim(self, keep: Mapping[str, float], allowed: Callable[[], bool]) -> dict[str, int]:
        self.passes += 1
        self.allowed.append(allowed())
        if self.is_away:
            raise Unavailable("no broker")
        return dict.fromkeys(keep, 3)


def janitor(streams: Any, interval: float = 0.001) -> tuple[Janitor, CollectorRegistry]:
    registry = CollectorRegistry()
    return Janitor(streams, KEEP, interval, registry), registry


async def test_it_works_for_as_long_as_the_lane_is_served(caplog: pytest.LogCaptureFixture) -> None:
    broker, lane = Broker(), FakeLane(0)
    at_work, registry = janitor(broker)
    with caplog.at_level(logging.INFO):
        async with at_work.beside(lane):  # type: ignore[arg-type]
            await until(lambda: broker.passes >= 3)
            lane.is_owned = False
            await until(lambda: broker.allowed[-1] is False)
            lane.is_owned, lane.stopping = True, Deadline(1.0)
            count = broker.passes
            await until(lambda: broker.passes > count + 1)
    assert broker.allowed[0] is True
    assert broker.allowed[-1] is False
    after = broker.passes
    await asyncio.sleep(0.02)
    assert broker.passes == after
    deleted = registry.get_sample_value("headrace_deleted_records_total", {"topic": "urls.to_fetch"})
    assert deleted == 3 * after
    assert {record.getMessage() for record in caplog.records} == {"topics trimmed"}


@pytest.mark.parametrize(("partition", "interval"), [(1, 0.001), (0, 0.0)])
async def test_another_partition_and_an_interval_of_0_have_none(partition: int, interval: float) -> None:
    broker = Broker()
    async with janitor(broker, interval)[0].beside(FakeLane(partition)):  # type: ignore[arg-type]
        await asyncio.sleep(0.02)
    assert not broker.passes


async def test_the_embedded_log_needs_none(tmp_path: Path) -> None:
    streams = await EmbeddedStreams.open(tmp_path, partitions=1, sync="none", keep=0, clock=SystemClock())
    async with janitor(streams)[0].beside(FakeLane(0)):  # type: ignore[arg-type]
        await asyncio.sleep(0.02)
    await streams.close()


async def test_a_broker_that_does_not_answer_is_told_once_and_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker()
    broker.is_away = True
    with caplog.at_level(logging.WARNING):
        async with janitor(broker)[0].beside(FakeLane(0)):  # type: ignore[arg-type]
            await until(lambda: broker.passes >= 3)
            assert len(caplog.records) == 1
            broker.is_away = False
            count = broker.passes
            await until(lambda: broker.passes > count + 2)
            broker.is_away = True
            await until(lambda: len(caplog.records) == 2)
    assert {record.getMessage() for record in caplog.records} == {"topics not trimmed, tried again later"}


async def test_what_the_lane_raises_passes_and_the_janitor_is_gone() -> None:
    broker = Broker()
    with pytest.raises(Unavailable):
        async with janitor(broker)[0].beside(FakeLane(0)):  # type: ignore[arg-type]
            raise Unavailable("the lane")
    passes = broker.passes
    await asyncio.sleep(0.02)
    assert broker.passes == passes
