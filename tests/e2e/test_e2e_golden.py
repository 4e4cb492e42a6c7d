"""A topic written by releases of the past, read by today's services."""

import asyncio
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from headrace.compose import BUILDERS
from headrace_runtime.clock import SystemClock
from headrace_runtime.control import ControlWatch
from headrace_runtime.service import Parts
from headrace_runtime.streams.open import open_streams
from headrace_runtime.streams.seams import Send
from headrace_schemas.settings import Settings, StreamSettings
from headrace_schemas.topics import CONTROL_KEY, EDGES, TOPICS
from tests.contract.serving import serving
from tests.schemas.golden import golden_file
from tests.schemas.samples import SAMPLES

SETTINGS = Settings(streams=StreamSettings(partitions=1))


@pytest.mark.parametrize("group", ["storer", "frontier"])
async def test_yesterdays_messages_are_read_by_todays_service(group: str, tmp_path: Path) -> None:
    streams = await open_streams(SETTINGS, tmp_path)
    running = golden_file("control_mode_running").read_bytes()
    await streams.publish([Send("crawl.control", 0, running, CONTROL_KEY)])
    golden = [(topic, golden_file(name).read_bytes()) for name, (topic, _) in SAMPLES.items()]
    await streams.publish([Send(topic, 0, value) for topic, value in golden if group in TOPICS[topic].readers])
    await streams.publish([Send("fetch.results", 0, b"garbage")])
    control = await ControlWatch.open(streams)
    service = BUILDERS[group](SETTINGS, Parts(streams, control, SystemClock(), CollectorRegistry(), tmp_path))
    edges = [edge for edge in EDGES if edge[1] == group]
    await service.start()
    async with serving(streams, group, service.topics, service.serve, stateful=service.stateful):
        async with asyncio.timeout(60):
            while any(edge.committed < edge.end for edge in await streams.edges(edges)):
                await asyncio.sleep(0.01)
    await service.close()
    await control.close()
    dead = (await streams.edges([("dead.letters", "nobody")]))[0].end
    await streams.close()
    assert dead == 1  # the one that no release wrote
