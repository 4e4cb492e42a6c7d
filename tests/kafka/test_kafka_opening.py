"""Without a broker there is one clear line, soon, and nothing left open."""

import asyncio
import gc
import socket
import time
import warnings
from pathlib import Path

import pytest

from deploy.kafka.broker import free_ports
from headrace_runtime.streams.kafka import client
from headrace_runtime.streams.kafka.topics import create_topics, delete_topics
from headrace_schemas.errors import Unavailable
from tests.kafka.place import Place


async def refused(place: Place) -> None:
    with pytest.raises(Unavailable, match=f"no Kafka broker at {place.brokers[0]}") as raised:
        async with place.opened():
            pass
    assert "\n" not in str(raised.value)


async def test_nobody_listening_is_said_in_one_line_that_names_the_address(tmp_path: Path) -> None:
    place = Place([f"127.0.0.1:{free_ports(1)[0]}"], "x.", tmp_path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        await refused(place)
        with pytest.raises(Unavailable, match=place.brokers[0]):
            await create_topics(place.brokers, "x.", 1, 1)
        with pytest.raises(Unavailable, match=place.brokers[0]):
            await delete_topics(place.brokers, "x.")
        gc.collect()
    assert not [warning for warning in caught if "Unclosed" in str(warning.message)]


async def test_a_listener_that_never_answers_does_not_hold_us_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_OPEN_SECONDS", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        await refused(Place([f"127.0.0.1:{silent.getsockname()[1]}"], "x.", tmp_path))
    assert time.monotonic() - started < 30


async def test_something_else_than_kafka_is_no_broker(tmp_path: Path) -> None:
    async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(hello, "127.0.0.1", 0)
    async with server:
        await refused(Place([f"127.0.0.1:{server.sockets[0].getsockname()[1]}"], "x.", tmp_path))
