"""HTTP/2, where the client has it and the server offers it."""

import shutil
from collections.abc import AsyncIterator

import pytest

from benchmarks.web.certificates import Certificates, certificates
from headrace_schemas.messages import Failed, FetchedPage
from tests.fetcher.http2 import HEAD, Http2, http2_server
from tests.fetcher.rig import CLIENTS, rig

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("tls"), "DNS:localhost")


@pytest.fixture
async def server(trusted: Certificates, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Http2]:
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted.authority))
    async with http2_server(trusted.server()) as web:
        yield web


@pytest.mark.parametrize("client", CLIENTS)
async def test_each_client_speaks_the_newest_it_has_and_says_which(server: Http2, client: str) -> None:
    told = set()
    async with rig(client) as fetcher:
        for _ in range(3):
            answer = await fetcher.fetch(server.url())
            assert isinstance(answer.page, FetchedPage), answer
            assert answer.page.size > 2_000
            told.add(answer.page.protocol)
    newest = ("HTTP/2", "h2") if client == "pyreqwest" else ("HTTP/1.1", "http/1.1")
    assert (told, server.spoken) == ({newest[0]}, [newest[1]]), "over one kept connection"
    assert server.streams == ([1, 3, 5] if client == "pyreqwest" else [])


async def test_without_the_setting_http2_is_not_offered(server: Http2) -> None:
    async with rig("pyreqwest", http2=False) as fetcher:
        answer = await fetcher.fetch(server.url())
    assert isinstance(answer.page, FetchedPage)
    assert (answer.page.protocol, server.spoken) == ("HTTP/1.1", ["http/1.1"])


async def test_a_stream_that_is_reset_is_a_named_outcome_and_the_connection_goes_on(server: Http2) -> None:
    server.resets = 1
    async with rig("pyreqwest") as fetcher:
        outcome = (await fetcher.fetch(server.url())).outcome
        assert isinstance(outcome, Failed)
        assert (outcome.reason, outcome.status, outcome.retriable) == ("protocol", 200, True)
        assert isinstance((await fetcher.fetch(server.url())).page, FetchedPage)
    assert server.spoken == ["h2"]


async def test_headers_that_cannot_be_read_are_a_named_outcome(server: Http2) -> None:
    server.head = HEAD + b"\xff\xff\xff\xff\xff\xff"  # a number of HPACK without an end
    async with rig("pyreqwest") as fetcher:
        outcome = (await fetcher.fetch(server.url())).outcome
    assert isinstance(outcome, Failed)
    assert outcome.reason == "protocol"
