"""HTTPS: names and certificates are checked although the connection is made to an address vetted before."""

import asyncio
import shutil
from collections.abc import AsyncIterator

import pytest

from benchmarks.web.certificates import Certificates, certificates
from headrace_schemas.messages import Failed, FetchedPage
from tests.fetcher.hostile import Hostile, hostile_server
from tests.fetcher.rig import CLIENTS, rig

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """For the name localhost only."""
    return certificates(tmp_path_factory.mktemp("tls"), "DNS:localhost")


@pytest.fixture
async def server(trusted: Certificates) -> AsyncIterator[Hostile]:
    async with hostile_server("127.0.0.1", trusted.server()) as hostile:
        yield hostile


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_trusted_name_gives_its_page(
    server: Hostile, client: str, trusted: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted.authority))
    async with rig(client) as fetcher:
        for _ in range(2):
            answer = await fetcher.fetch(server.url("/", "localhost"))
            assert isinstance(answer.page, FetchedPage), answer
    assert server.log[-1].headers["host"] == f"localhost:{server.port}"


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_certificate_for_another_name_is_refused(
    server: Hostile, client: str, trusted: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted.authority))
    async with rig(client) as fetcher:
        outcome = (await fetcher.fetch(server.url("/", "127.0.0.1"))).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.retriable) == ("tls", False)
    assert not server.log


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_certificate_nobody_vouches_for_is_refused(server: Hostile, client: str) -> None:
    async with rig(client) as fetcher:
        outcome = (await fetcher.fetch(server.url("/", "localhost"))).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.retriable) == ("tls", False)
    assert not server.log


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"", "connect"),
        (bytes((22, 3, 3, 0, 100, 2, 0, 0)), "connect"),  # half of its hello
        (bytes((21, 3, 3, 0, 2, 2, 40)), "tls"),  # an alert: handshake_failure
        (bytes((21, 3, 3, 0, 2, 2, 112)), "tls"),  # unrecognized_name
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "tls"),
    ],
    ids=["nothing", "half", "failure", "name", "plain"],
)
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_handshake_that_breaks_off_may_pass_and_one_that_is_refused_will_not(
    client: str, said: bytes, reason: str
) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(2000)
        writer.write(said)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, rig(client) as fetcher:
        outcome = (await fetcher.fetch(f"https://localhost:{port}/")).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.retriable) == (reason, reason == "connect"), outcome
