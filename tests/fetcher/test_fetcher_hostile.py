"""Every hostile answer is a named outcome: on each client, plain and over TLS, and the next request is fine."""

import shutil
from collections.abc import AsyncIterator

import pytest

from benchmarks.web.certificates import Certificates, certificates
from headrace_schemas.messages import Failed, Fetched, FetchedPage
from tests.fetcher.hostile import Hostile, Seen, bomb, hostile_server, html
from tests.fetcher.rig import CLIENTS, Rig, rig

CASES = {
    "/garbage": {"protocol"},
    "/hangup": {"protocol"},
    "/reset": {"protocol"},
    "/banana": {"protocol"},
    "/negative": {"protocol"},
    "/twolengths": {"protocol"},
    "/short": {"protocol"},
    "/resetbody": {"protocol"},
    "/badchunk": {"protocol"},
    "/cutchunk": {"protocol"},
    "/hugeheader": {"headers"},
    "/thousandheaders": {"headers"},
    "/endlessheaders": {"headers"},
    "/badgzip": {"decode"},
    "/shortgzip": {"decode"},
    "/unknown": {"decode"},
    "/bomb/gzip": {"too_large"},
    "/bomb/br": {"too_large"},
    "/bomb/zstd": {"too_large"},
    "/bomb/gzip, gzip": {"too_large"},
    "/endless": {"too_large"},
    "/announced": {"too_large"},
    "/bigpng": {"not_html"},
    "/drip": {"timeout"},
    "/silent": {"timeout"},
}
BOMBS = {f"/bomb/{encoding}": bomb(16, encoding) for encoding in ("gzip", "br", "zstd", "gzip, gzip")}


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("tls"), "DNS:localhost")


@pytest.fixture(params=["plain", "tls"])
async def server(
    request: pytest.FixtureRequest, trusted: Certificates, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Hostile]:
    if request.param == "tls" and shutil.which("openssl") is None:
        pytest.skip("makes its certificate with openssl")
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted.authority))
    async with hostile_server("127.0.0.1", trusted.server() if request.param == "tls" else None) as hostile:
        for path, body in BOMBS.items():
            hostile.routes[path.replace(", ", "-")] = html(f"Content-Encoding: {path[6:]}", body=body)
        yield hostile


@pytest.fixture(params=CLIENTS)
async def fetcher(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async with rig(request.param, total=1.5, read=1.0, max_bytes=500_000) as made:
        yield made


async def test_each_hostile_answer_has_its_name_and_harms_nothing(server: Hostile, fetcher: Rig) -> None:
    found = {}
    for path in CASES:
        answer = await fetcher.fetch(server.url(path.replace(", ", "-"), "localhost"))
        assert isinstance(answer.outcome, Failed), path
        assert len(answer.outcome.detail) <= 210
        found[path] = {answer.outcome.reason}
        good = await fetcher.fetch(server.url("/", "localhost"))
        assert isinstance(good.page, FetchedPage), (path, good)
    assert found == CASES


async def test_what_follows_the_announced_length_is_not_part_of_the_page(server: Hostile, fetcher: Rig) -> None:
    """Nor of the next answer: a response smuggled behind the first would be taken for another page's."""
    for _ in range(3):
        outcome = (await fetcher.fetch(server.url("/longer", "localhost"))).outcome
        assert isinstance(outcome, Fetched | Failed)
        if isinstance(outcome, Fetched):
            assert outcome.size == 3
        assert isinstance((await fetcher.fetch(server.url("/", "localhost"))).page, FetchedPage)


async def test_what_met_a_reused_connection_that_is_hung_up_on_is_asked_once_more_at_the_most_and_in_its_turn(
    server: Hostile, fetcher: Rig
) -> None:
    first: set[int] = set()

    async def once(writer: object, seen: Seen) -> bool | None:
        if id(writer) in first:
            return None
        first.add(id(writer))
        return await html()(writer, seen)  # type: ignore[arg-type]

    server.routes["/once"] = once
    url = server.url("/once", "localhost")
    assert isinstance((await fetcher.fetch(url)).page, FetchedPage)
    before = len(server.log)
    answer = await fetcher.fetch(url)
    assert isinstance(answer.outcome, Fetched | Failed)
    asked = len(server.log) - before
    assert asked <= 2
    assert fetcher.held == [url] * (asked - 1)
    assert [host for host, _ in answer.figures.hops] == ["localhost"] * (asked - 1), "and both are told"
