"""The service as it is composed, on the embedded engine."""

import asyncio
import contextlib
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from headrace_runtime.clock import Deadline, SystemClock
from headrace_runtime.control import ControlWatch
from headrace_runtime.service import Parts, Service
from headrace_runtime.streams.open import open_streams
from headrace_runtime.streams.seams import Send, Streams
from headrace_schemas import codec
from headrace_schemas.errors import FatalError
from headrace_schemas.settings import Settings, StreamSettings
from headrace_schemas.topics import EDGES
from headrace_storer.index import open_index
from headrace_storer.service import build, open_store
from tests.storer.storer_messages import failed, page, parsed

SETTINGS = Settings(streams=StreamSettings(partitions=4))


async def parts_on(workspace: Path, streams: Streams) -> Parts:
    control = await ControlWatch.open(streams)
    return Parts(streams, control, SystemClock(), CollectorRegistry(), workspace)


async def read_to_the_end(streams: Streams, service: Service) -> None:
    membership = await streams.join(service.group, service.topics, service.serve)
    running = asyncio.create_task(membership.run())
    try:
        async with asyncio.timeout(30):
            while any(edge.committed < edge.end for edge in await streams.edges(_edges())):
                await asyncio.sleep(0.01)
    finally:
        await membership.stop(Deadline(5.0))
        with contextlib.suppress(asyncio.CancelledError):
            await running


def _edges() -> list[tuple[str, str]]:
    return [edge for edge in EDGES if edge[1] == "storer"]


async def test_what_is_published_is_stored_and_read_again(tmp_path: Path) -> None:
    streams = await open_streams(SETTINGS, tmp_path)
    parts = await parts_on(tmp_path, streams)
    service = build(SETTINGS, parts)
    await service.start()
    sends: list[Send] = []
    for n in range(1, 101):
        url = f"http://site.test/{n}"
        sends += [
            Send("pages.fetched", n % 4, codec.encode(page(n, url, b"body %d" % n))),
            Send("pages.parsed", n % 4, codec.encode(parsed(n, url))),
            Send("fetch.results", n % 4, codec.encode(failed(n, url=url + "/missing"))),
        ]
    sends.append(Send("pages.fetched", 2, b"garbage"))
    await streams.publish(sends)
    await read_to_the_end(streams, service)
    assert service.busy() == 0
    assert service.status()["trouble"] == ""
    await service.close()
    await parts.control.close()
    await streams.close()

    index = open_index(SETTINGS, tmp_path, create=False)
    store = open_store(SETTINGS, tmp_path)
    assert index.count() == {"2xx": 100, "5xx": 100}
    for stored in index.stored():
        assert store.read(stored.stored_path) == b"body %d" % stored.version
    index.close()


async def test_a_workspace_with_a_foreign_index_does_not_start(tmp_path: Path) -> None:
    streams = await open_streams(SETTINGS, tmp_path)
    parts = await parts_on(tmp_path, streams)
    (tmp_path / "index.sqlite").write_bytes(b"something else, long enough to be looked at" * 10)
    service = build(SETTINGS, parts)
    with pytest.raises(FatalError):
        await service.start()
    await service.close()
    await parts.control.close()
    await streams.close()
