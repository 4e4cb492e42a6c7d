"""HTTPS: names and certificates are checked although the connection is made to an address vetted before."""

import asyncio
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace_schemas.messages import Failed, FetchedPage
from tests.fetcher.hostile import Hostile
from tests.fetcher.rig import CLIENTS, rig

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For the name localhost only, signed by itself; the key lies beside it."""
    path = tmp_path_factory.mktemp("tls") / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(path.with_suffix(".key")), "-out", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    return path


@pytest.fixture
async def server(certificate: Path) -> AsyncIterator[Hostile]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_suffix(".key"))
    hostile = Hostile()
    listening = await asyncio.start_server(hostile.serve, "127.0.0.1", 0, ssl=context)
    hostile.port = listening.sockets[0].getsockname()[1]
    yield hostile
    listening.close()


def secure(server: Hostile, host: str) -> str:
    return server.url("/", host).replace("http:", "https:")


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_trusted_name_gives_its_page(
    server: Hostile, client: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with rig(client) as fetcher:
        for _ in range(2):
            answer = await fetcher.fetch(secure(server, "localhost"))
            assert isinstance(answer.page, FetchedPage), answer
    assert server.log[-1].headers["host"] == f"localhost:{server.port}"


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_certificate_for_another_name_is_refused(
    server: Hostile, client: str, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    async with rig(client) as fetcher:
        outcome = (await fetcher.fetch(secure(server, "127.0.0.1"))).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.retriable) == ("tls", False)
    assert not server.log


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_certificate_nobody_vouches_for_is_refused(server: Hostile, client: str) -> None:
    async with rig(client) as fetcher:
        outcome = (await fetcher.fetch(secure(server, "localhost"))).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.retriable) == ("tls", False)
    assert not server.log
