"""Connections of our own: what they carry, when they are kept, and what no server can make them do."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from urllib.parse import quote, unquote

import pytest

from headrace_fetcher import httptools_transport
from headrace_fetcher.connection import BUFFER
from headrace_fetcher.httptools_transport import HttptoolsTransport
from headrace_fetcher.transport import target_of
from headrace_schemas.messages import Failed, Fetched
from tests.fetcher.hostile import PAGE, Hostile, Reply, Seen, hostile_server, html
from tests.fetcher.rig import CLIENTS, Rig, rig

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
SIZED = OK + b"Content-Length: %d\r\n\r\n" % len(PAGE) + PAGE


@pytest.fixture
async def server() -> AsyncIterator[Hostile]:
    async with hostile_server() as hostile:
        yield hostile


@pytest.fixture
async def fetcher() -> AsyncIterator[Rig]:
    async with rig("httptools", total=3.0, read=2.0, max_bytes=50_000_000) as made:
        yield made


def kept(data: bytes) -> Reply:
    """Exactly these bytes, and the connection stays open."""

    async def reply(writer: asyncio.StreamWriter, seen: Seen) -> bool:
        writer.write(data)
        await writer.drain()
        return True

    return reply


def transport_of(fetcher: Rig) -> HttptoolsTransport:
    assert isinstance(fetcher.transport, HttptoolsTransport)
    return fetcher.transport


async def reason_of(fetcher: Rig, url: str) -> tuple[str, str]:
    outcome = (await fetcher.fetch(url)).outcome
    assert isinstance(outcome, Failed), outcome
    return outcome.reason, outcome.detail


async def until(true: object) -> None:
    assert callable(true)
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.01)


async def test_interim_answers_are_not_the_answer(server: Hostile, fetcher: Rig) -> None:
    hints = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
    server.routes["/hints"] = kept(hints + SIZED)
    for _ in range(3):
        answer = await fetcher.fetch(server.url("/hints"))
        assert isinstance(answer.outcome, Fetched)
        assert answer.outcome.size == len(PAGE)
        assert "link" not in dict(fetcher.trip.headers.kept())
    assert len(transport_of(fetcher)) == 1


CHUNKED = b"Transfer-Encoding: chunked\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(PAGE)
IN_CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(PAGE), PAGE)
CLOSED = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n" + PAGE
ODD = {
    "the same length twice": OK + LENGTH + LENGTH + b"\r\n" + PAGE,
    "the same length in one line": OK + LENGTH[:-2] + b", %d\r\n\r\n" % len(PAGE) + PAGE,
    "a length and chunks": OK + LENGTH + CHUNKED + b"\r\n" + IN_CHUNKS,
    "chunks and a length": OK + CHUNKED + b"content-length: 7\r\n\r\n" + IN_CHUNKS,
    "chunks and two lengths": OK + b"Content-Length: 9\r\n" + LENGTH + CHUNKED + b"\r\n" + IN_CHUNKS,
    "a length and identity": OK + LENGTH + b"Transfer-Encoding: identity\r\n\r\n" + PAGE,
    "identity until it closes": CLOSED.replace(b"\r\n", b"\r\nTransfer-Encoding: identity\r\n", 1),
    "an interim answer that closes": b"HTTP/1.1 100 Continue\r\nConnection: close\r\n\r\n" + CLOSED,
    "an interim answer of the old version": b"HTTP/1.0 100 Continue\r\n\r\n" + CLOSED,
    "an old answer to an interim one": b"HTTP/1.1 103 Early\r\nLink: <x>\r\n\r\n" + CLOSED.replace(b"1.1", b"1.0", 1),
    "an interim answer and a length twice": b"HTTP/1.1 100 Continue\r\n\r\n" + OK + LENGTH * 2 + b"\r\n" + PAGE,
    "bare line feeds": (OK + LENGTH + CHUNKED + b"\r\n").replace(b"\r", b"") + IN_CHUNKS,
}
REFUSED = {"httpx": {"chunks and two lengths", "a length and identity", "identity until it closes"}}
"""What another client does not read: not for us to mend."""


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("cut", [False, True], ids=["at once", "in bits"])
async def test_what_browsers_read_is_read(server: Hostile, client: str, cut: bool) -> None:
    async def reply(writer: asyncio.StreamWriter, seen: Seen) -> None:
        data = ODD[unquote(seen.target[1:])]
        for at in range(0, len(data), 40 if cut else len(data)):
            writer.write(data[at : at + 40] if cut else data)
            await asyncio.sleep(0)

    server.routes |= {f"/{quote(name)}": reply for name in ODD}
    async with rig(client, total=3.0, read=2.0) as fetcher:
        for number, name in enumerate(ODD):  # a host each, or one would meet the connection that another had closed
            outcome = (await fetcher.fetch(server.url(f"/{quote(name)}", f"127.0.4.{number}"))).outcome
            if name in REFUSED.get(client, ()):
                assert isinstance(outcome, Failed), name
                assert outcome.reason == "protocol", name
            else:
                assert isinstance(outcome, Fetched), (name, outcome)
                assert outcome.size == len(PAGE), name


async def test_a_connection_whose_answer_had_to_be_mended_is_not_used_again(server: Hostile, fetcher: Rig) -> None:
    server.routes["/twice"] = kept(ODD["the same length twice"] + SIZED)
    server.routes["/both"] = kept(ODD["a length and chunks"])
    for path in ("/twice", "/both", "/"):
        answer = await fetcher.fetch(server.url(path))
        assert isinstance(answer.outcome, Fetched)
        assert answer.outcome.size == len(PAGE)
        assert len(transport_of(fetcher)) == (path == "/")
    assert "content-length" in dict(fetcher.trip.headers.kept())


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n" * 1000,
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nanything",
        b"HTTP/1.1 000 Nothing\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3, 4\r\n\r\nabcd",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: gzip\r\n\r\nabc",
        b"HTTP/3.9 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"just a page, as if this were 1991",
    ],
)
async def test_what_no_client_can_trust_is_a_protocol_failure(server: Hostile, fetcher: Rig, data: bytes) -> None:
    server.routes["/odd"] = kept(data)
    assert (await reason_of(fetcher, server.url("/odd")))[0] == "protocol"
    assert isinstance((await fetcher.fetch(server.url("/"))).outcome, Fetched)


async def test_what_a_server_says_unasked_is_never_an_answer(server: Hostile, fetcher: Rig) -> None:
    """Neither behind a page in the same segment nor later, while the connection is idle."""
    smuggled = OK + b"Content-Length: 4\r\n\r\nevil"
    server.routes["/behind"] = kept(SIZED + smuggled)
    speak = asyncio.Event()

    async def later(writer: asyncio.StreamWriter, seen: Seen) -> bool:
        writer.write(SIZED)
        await speak.wait()
        writer.write(smuggled)
        return True

    server.routes["/later"] = later
    for path in ("/behind", "/", "/later"):
        outcome = (await fetcher.fetch(server.url(path))).outcome
        assert isinstance(outcome, Fetched)
        assert outcome.size == len(PAGE)
    assert len(transport_of(fetcher)) == 1
    speak.set()
    await until(lambda: len(transport_of(fetcher)) == 0)
    assert isinstance((await fetcher.fetch(server.url("/"))).outcome, Fetched)


@pytest.mark.parametrize(
    "tail", [b"0\r\n" + b"X: y\r\n" * 50_000, b"3;" + b"x" * 500_000 + b"\r\nabc\r\n", b"0\r\nX: " + b"y" * 500_000]
)
async def test_what_is_neither_head_nor_body_is_bounded_too(server: Hostile, fetcher: Rig, tail: bytes) -> None:
    server.routes["/chatty"] = kept(OK + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n" + tail)
    assert (await reason_of(fetcher, server.url("/chatty")))[0] == "headers"


async def test_trailers_are_read_and_not_taken_for_headers(server: Hostile, fetcher: Rig) -> None:
    body = b"Transfer-Encoding: chunked\r\n\r\n3;why=not\r\nabc\r\n0\r\nEtag: late\r\n\r\n"
    server.routes["/trailers"] = kept(OK + body)
    for _ in range(2):
        answer = await fetcher.fetch(server.url("/trailers"))
        assert isinstance(answer.outcome, Fetched)
        assert answer.outcome.size == 3
    assert "etag" not in dict(fetcher.trip.headers.kept())
    assert len(transport_of(fetcher)) == 1


async def test_a_body_that_comes_faster_than_it_is_read_waits_at_the_server(server: Hostile) -> None:
    size, sent = 40_000_000, 0

    async def pour(writer: asyncio.StreamWriter, seen: Seen) -> None:
        nonlocal sent
        writer.write(OK + b"Content-Length: %d\r\n\r\n" % size)
        while sent < size:
            writer.write(b"x" * 100_000)
            await writer.drain()
            sent += 100_000

    server.routes["/pour"] = pour
    async with rig("httptools") as fetcher:
        trip, url = fetcher.trip, server.url("/pour")
        body = await fetcher.pages._client.get(url, trip)
        await asyncio.sleep(0.3)
        before = sent
        await asyncio.sleep(0.3)
        assert before == sent < size / 2
        pieces = [len(piece) async for piece in body]
        assert sum(pieces) == size
        assert max(pieces) < 4 * BUFFER
        await body.aclose()


async def test_a_connection_that_is_not_used_is_closed(
    server: Hostile, fetcher: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(httptools_transport, "KEEP_ALIVE", 0.3)
    assert isinstance((await fetcher.fetch(server.url("/"))).outcome, Fetched)
    assert len(transport_of(fetcher)) == 1
    await until(lambda: len(transport_of(fetcher)) == 0)
    assert isinstance((await fetcher.fetch(server.url("/"))).outcome, Fetched)


async def test_a_server_that_will_not_keep_the_connection_is_not_made_to(server: Hostile, fetcher: Rig) -> None:
    server.routes["/last"] = kept(SIZED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
    server.routes["/old"] = kept(SIZED.replace(b"1.1", b"1.0", 1))
    for path in ("/last", "/old"):
        assert isinstance((await fetcher.fetch(server.url(path))).outcome, Fetched)
        await until(lambda: len(transport_of(fetcher)) == 0)


async def test_an_attempt_that_is_given_up_takes_its_connection_with_it(server: Hostile, fetcher: Rig) -> None:
    asking = asyncio.create_task(fetcher.fetch(server.url("/silent")))
    await until(lambda: server.open == 1)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    await until(lambda: len(transport_of(fetcher)) == 0)


async def test_silence_in_the_middle_of_a_body_meets_the_read_timeout(server: Hostile) -> None:
    async def stall(writer: asyncio.StreamWriter, seen: Seen) -> None:
        writer.write(OK + b"Content-Length: 100\r\n\r\nsome")
        await asyncio.sleep(30)

    server.routes["/stall"] = stall
    async with rig("httptools", total=20.0, read=0.5) as fetcher:
        assert (await reason_of(fetcher, server.url("/stall"))) == ("timeout", "no byte in time")


async def test_a_host_with_a_dead_address_is_reached_at_its_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the time for a connection, not after it: the first one does not refuse, it is silent."""
    async with hostile_server("127.0.0.1") as server:
        with socket.socket() as full:  # takes no connection: its queue is full
            full.bind(("127.0.0.77", server.port))
            full.listen(0)
            filling = [socket.socket() for _ in range(4)]
            for one in filling:
                one.setblocking(False)
                one.connect_ex(full.getsockname())
            async with rig("httptools") as fetcher:

                async def both(host: str, port: int) -> tuple[str, ...]:
                    return ("127.0.0.77", "127.0.0.1")

                monkeypatch.setattr(transport_of(fetcher)._resolver, "addresses", both)
                began = time.monotonic()
                assert isinstance((await fetcher.fetch(server.url("/", "two.example"))).outcome, Fetched)
                assert time.monotonic() - began < 2.0
            for one in filling:
                one.close()


async def test_a_target_that_would_be_two_requests_is_not_sent(server: Hostile, fetcher: Rig) -> None:
    url = server.url("/a HTTP/1.1\r\nHost: b\r\n\r\nGET /")
    assert target_of(url)
    assert (await reason_of(fetcher, url))[0] == "protocol"
    assert not server.log


async def test_white_space_around_a_value_is_not_part_of_it(server: Hostile, fetcher: Rig) -> None:
    server.routes["/space"] = html('ETag:  "v" \t')
    await fetcher.fetch(server.url("/space"))
    assert dict(fetcher.trip.headers.kept())["etag"] == '"v"'
