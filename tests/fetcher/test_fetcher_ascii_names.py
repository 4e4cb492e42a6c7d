"""Host names of every kind: each client asks for them as they are in the URL, or says what is wrong with them."""

from collections.abc import AsyncIterator

import pytest

from headrace_fetcher import lookups
from headrace_schemas.messages import Failed, Fetched
from headrace_schemas.urls import as_found
from tests.fetcher.hostile import Hostile, hostile_server
from tests.fetcher.rig import CLIENTS, rig


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Hostile]:
    monkeypatch.setattr(lookups, "getaddrinfo", lambda host: ("127.0.0.1",))
    async with hostile_server("127.0.0.1") as hostile:
        yield hostile


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_name_that_browsers_open_is_asked_for_in_ascii(server: Hostile, client: str) -> None:
    names = {
        "i❤.ws": "xn--i-7iq.ws",
        "💩.la": "xn--ls8h.la",
        "bücher.example": "xn--bcher-kva.example",
        "faß.example": "xn--fa-hia.example",
        "straße。example": "xn--strae-oqa.example",
        "under_score.example": "under_score.example",
        "-dash-.example": "-dash-.example",
    }
    async with rig(client) as fetcher:
        for name, ascii_name in names.items():
            url = as_found(f"http://{name}:{server.port}/")
            outcome = (await fetcher.fetch(url)).outcome
            assert isinstance(outcome, Fetched), (name, outcome)
            assert server.log[-1].headers["host"] == f"{ascii_name}:{server.port}"


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "name",
    ["xn--0.example", "xn--.example", "xn--a-ecp.ru", "a..example", "xn--" + "a" * 60, "a" * 64 + ".example", "ab*c"],
)
async def test_a_name_that_cannot_be_is_asked_for_as_it_is_or_fails_by_name(
    server: Hostile, client: str, name: str
) -> None:
    async with rig(client) as fetcher:
        outcome = (await fetcher.fetch(f"http://{name}:{server.port}/")).outcome
    assert isinstance(outcome, Fetched | Failed)
    assert isinstance(outcome, Fetched) or not outcome.retriable
