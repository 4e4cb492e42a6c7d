"""The endpoint over real HTTP."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from prometheus_client import Counter

from headrace_runtime import endpoint as module
from headrace_runtime.endpoint import Endpoint, new_registry
from headrace_schemas.errors import UsageError
from tests.runtime.waiting import until


class Served:
    def __init__(self) -> None:
        self.registry = new_registry()
        self.is_ready, self.why = False, "starting"
        self.state: dict[str, Any] = {"lanes": [1, 2]}
        self.endpoint = Endpoint(self.registry, "127.0.0.1", 0, lambda: (self.is_ready, self.why), self.report)
        self.address = ""

    def report(self) -> dict[str, Any]:
        if not self.state:
            raise RuntimeError("no state")
        return self.state

    async def get(self, path: str, **headers: str) -> tuple[int, str, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://{self.address}{path}", headers=headers) as answer,
        ):
            return answer.status, answer.headers["Content-Type"], await answer.text()

    async def raw(self, request: bytes) -> bytes:
        host, _, port = self.address.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(request)
            return await asyncio.wait_for(reader.read(), 10)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    served = Served()
    served.address = await served.endpoint.start()
    yield served
    await served.endpoint.close()


async def test_metrics_are_those_of_the_registry_and_of_the_process(served: Served) -> None:
    Counter("headrace_things", "Things", registry=served.registry).inc(3)
    status, content_type, text = await served.get("/metrics")
    assert (status, content_type) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert "headrace_things_total 3.0" in text
    assert "process_resident_memory_bytes" in text
    assert "python_info" in text


async def test_metrics_come_as_openmetrics_to_who_asks_for_them(served: Served) -> None:
    status, content_type, text = await served.get("/metrics", Accept="application/openmetrics-text; version=1.0.0")
    assert status == 200
    assert content_type.startswith("application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")


async def test_health_readiness_and_status(served: Served) -> None:
    assert (await served.get("/healthz"))[::2] == (200, "ok\n")
    assert (await served.get("/readyz"))[::2] == (503, "starting\n")
    served.is_ready, served.why = True, "running"
    assert (await served.get("/readyz?verbose"))[::2] == (200, "running\n")
    assert await served.get("/status") == (200, "application/json", '{"lanes": [1, 2]}\n')


async def test_anything_else_is_not_found_or_not_allowed(served: Served) -> None:
    assert (await served.get("/etc/passwd"))[0] == 404
    assert b" 405 " in await served.raw(b"POST /status HTTP/1.1\r\n\r\n")
    head = await served.raw(b"HEAD /status HTTP/1.1\r\n\r\n")
    assert b" 200 " in head
    assert head.endswith(b"\r\n\r\n")


async def test_a_broken_report_is_an_answer_and_not_the_end(served: Served) -> None:
    served.state = {}
    status, _, text = await served.get("/status")
    assert (status, text) == (500, "RuntimeError('no state')\n")
    assert (await served.get("/healthz"))[0] == 200


@pytest.mark.parametrize("request_", [b"\x00\xff" * 50 + b"\r\n\r\n", b"GET\r\n\r\n", b"\r\n\r\n", b"G" * 100_000])
async def test_garbage_disturbs_nobody(served: Served, request_: bytes) -> None:
    answer = await served.raw(request_)
    assert not answer or answer.startswith(b"HTTP/1.1 4")
    assert (await served.get("/healthz"))[0] == 200


async def test_an_idle_connection_is_closed(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    assert await served.raw(b"GET /healthz HTTP/1.1\r\n") == b""


async def test_more_connections_than_allowed_are_turned_away_and_room_comes_back(served: Served) -> None:
    host, _, port = served.address.partition(":")
    idle = [await asyncio.open_connection(host, int(port)) for _ in range(module._CONNECTIONS)]
    for _, writer in idle:
        writer.write(b"GET ")
    await until(lambda: len(served.endpoint._open) == module._CONNECTIONS)
    assert await served.raw(b"GET /healthz HTTP/1.1\r\n\r\n") == b""
    for _, writer in idle:
        writer.close()
    await until(lambda: not served.endpoint._open)
    assert (await served.get("/healthz"))[0] == 200


async def test_closing_waits_for_no_idle_peer(served: Served) -> None:
    host, _, port = served.address.partition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    await asyncio.wait_for(served.endpoint.close(), 2)
    writer.close()
    with pytest.raises(OSError, match="onnect"):
        await asyncio.open_connection(host, int(port))


async def test_a_port_in_use_is_one_line_that_names_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        endpoint = Endpoint(new_registry(), "127.0.0.1", port, lambda: (True, ""), dict)
        with pytest.raises(UsageError) as caught:
            await endpoint.start()
    assert str(caught.value).startswith(f"cannot listen on 127.0.0.1:{port} (metrics.host, metrics.port): ")
    assert "in use" in str(caught.value)
    assert "\n" not in str(caught.value)
    await endpoint.close()


async def test_an_address_that_is_not_ours_is_one_line() -> None:
    endpoint = Endpoint(new_registry(), "not-a-host.invalid", 0, lambda: (True, ""), dict)
    with pytest.raises(UsageError, match=r"cannot listen on not-a-host\.invalid:0"):
        await endpoint.start()
