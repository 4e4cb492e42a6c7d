"""One attempt against a real, hostile server, for each HTTP client."""

import asyncio
import hashlib
import os
import resource
import socket
import time
from collections.abc import AsyncIterator

import pytest
import zstandard

from headrace_fetcher import body
from headrace_fetcher.headers import retry_after
from headrace_fetcher.pyreqwest_transport import PyreqwestTransport
from headrace_schemas.messages import Deferred, Failed, Fetched, FetchedPage, NotModified, Redirected, Refused, Robots
from headrace_schemas.urls import Canonicaliser
from tests.fetcher.hostile import PAGE, Hostile, Seen, answer, bomb, hostile_server, html, raw
from tests.fetcher.rig import CLIENTS, Rig, rig


@pytest.fixture
async def server() -> AsyncIterator[Hostile]:
    async with hostile_server() as hostile:
        yield hostile


@pytest.fixture(params=CLIENTS)
async def fetcher(request: pytest.FixtureRequest) -> AsyncIterator[Rig]:
    async with rig(request.param) as made:
        yield made


def page_of(answer: object) -> FetchedPage:
    page = getattr(answer, "page", None)
    assert isinstance(page, FetchedPage), answer
    return page


# ---- pages ----


async def test_a_page_comes_with_its_body_hash_headers_and_validators(server: Hostile, fetcher: Rig) -> None:
    answer = await fetcher.fetch(server.url("/conditional"), depth=3, referrer="http://from/", run=2, attempt=2)
    page = page_of(answer)
    assert zstandard.decompress(page.body) == PAGE
    assert (page.sha256, page.size) == (hashlib.sha256(PAGE).hexdigest(), len(PAGE))
    assert answer.outcome == Fetched(200, len(PAGE), page.sha256)
    assert (page.content_type, page.etag) == ("text/html", '"v1"')
    assert page.last_modified == "Tue, 01 Jul 2025 10:00:00 GMT"
    assert (page.depth, page.referrer, page.run, page.attempt, page.fetch_id) == (3, "http://from/", 2, 2, 7)
    assert page.protocol == "HTTP/1.1"
    assert ("content-type", "text/html") in page.headers
    assert zstandard.frame_content_size(page.body) == len(PAGE)


async def test_a_request_says_who_we_are_and_brings_nothing_private(server: Hostile, fetcher: Rig) -> None:
    await fetcher.fetch(server.url("/oddheader"))
    await fetcher.fetch(server.url("/oddheader"))
    for seen in server.log:
        assert seen.headers["user-agent"] == "headrace/1.2 (+ops@example.org)"
        assert seen.headers["accept-encoding"] == "gzip, deflate, br, zstd"
        assert seen.headers["host"] == f"127.0.0.1:{server.port}"
        assert seen.headers["accept"].startswith("text/html")
        assert not {"cookie", "if-none-match", "if-modified-since", "authorization"} & set(seen.headers)


@pytest.mark.parametrize(
    "target",
    ["/a|b", "/100%", "/%7euser/%e4", "/a?q=[1]&x=%27y%27&&=", "/a//b/;x=1", "/a?b=%zz", "/a+b?c+d=%2F", "//x", "/a?"],
)
async def test_a_url_is_sent_exactly_as_found(server: Hostile, fetcher: Rig, target: str) -> None:
    await fetcher.fetch(server.url(target))
    assert server.log[-1].target == target


@pytest.mark.parametrize("path", ["/gzip", "/deflate", "/rawdeflate", "/br", "/zstd", "/stacked"])
async def test_every_encoding_we_ask_for_is_undone(server: Hostile, fetcher: Rig, path: str) -> None:
    assert zstandard.decompress(page_of(await fetcher.fetch(server.url(path))).body) == PAGE


@pytest.mark.parametrize("path", ["/untilclose", "/chunked"])
async def test_bodies_of_any_framing_are_read(server: Hostile, fetcher: Rig, path: str) -> None:
    assert zstandard.decompress(page_of(await fetcher.fetch(server.url(path))).body) in (PAGE, b"abc")


@pytest.mark.parametrize(("path", "status"), [("/empty", 204), ("/empty200", 200)])
async def test_an_empty_answer_is_a_page_without_a_body(server: Hostile, fetcher: Rig, path: str, status: int) -> None:
    page = page_of(await fetcher.fetch(server.url(path)))
    assert (page.status, page.size, page.sha256) == (status, 0, hashlib.sha256(b"").hexdigest())


async def test_a_body_without_a_type_is_judged_by_its_first_bytes(server: Hostile, fetcher: Rig) -> None:
    assert page_of(await fetcher.fetch(server.url("/untyped"))).content_type == "text/html"
    refused = await fetcher.fetch(server.url("/untypedpng"))
    assert isinstance(refused.outcome, Failed)
    assert (refused.outcome.reason, refused.outcome.status) == ("not_html", 200)


@pytest.mark.parametrize("path", ["/png", "/bigpng"])
async def test_another_media_type_is_not_read(server: Hostile, fetcher: Rig, path: str) -> None:
    answer = await fetcher.fetch(server.url(path))
    assert isinstance(answer.outcome, Failed)
    assert (answer.outcome.reason, answer.outcome.status, answer.outcome.retriable) == ("not_html", 200, False)
    assert fetcher.trip.received == 0
    assert ("content-type", "image/png") in answer.headers


async def test_headers_kept_are_bounded_and_readable(server: Hostile, fetcher: Rig) -> None:
    many = page_of(await fetcher.fetch(server.url("/manyheaders")))
    assert len(many.headers) == 64
    odd = page_of(await fetcher.fetch(server.url("/oddheader")))
    assert ("set-cookie", "a=b") in odd.headers
    # pyreqwest gives out no value with a byte above ASCII; the page must come all the same.
    assert ("x-name", "café") in odd.headers or isinstance(fetcher.transport, PyreqwestTransport)


# ---- conditional requests ----


async def test_304_says_the_stored_page_still_holds(server: Hostile, fetcher: Rig) -> None:
    answer = await fetcher.fetch(server.url("/conditional"), etag='"v1"', last_modified="x")
    assert answer.outcome == Fetched(304)
    assert isinstance(answer.page, NotModified)
    assert (answer.page.etag, answer.page.last_modified) == ('"v1"', "x")


async def test_304_without_a_question_is_a_failure(server: Hostile, fetcher: Rig) -> None:
    assert (await fetcher.fetch(server.url("/notmodified"))).outcome == Failed("http", 304)


async def test_a_validator_that_would_break_out_of_its_header_is_not_sent(server: Hostile, fetcher: Rig) -> None:
    page_of(await fetcher.fetch(server.url("/"), etag='"x"\r\nX-Evil: 1', last_modified="\u2603"))
    assert "x-evil" not in server.log[-1].headers
    assert "if-none-match" not in server.log[-1].headers


# ---- redirects and errors of the server ----


async def test_a_redirect_is_told_and_not_followed(server: Hostile, fetcher: Rig) -> None:
    to = server.url("/there?b=2&a=1")
    moved = await fetcher.fetch(server.url("/moved"))
    assert moved.outcome == Redirected(301, to, Canonicaliser().key(to))
    found = await fetcher.fetch(server.url("/found"))
    assert isinstance(found.outcome, Redirected)
    assert found.outcome.to == "http://elsewhere.example/x"
    assert [seen.target for seen in server.log] == ["/moved", "/found"]


@pytest.mark.parametrize(("path", "status"), [("/nowhere", 302), ("/mailto", 307)])
async def test_a_redirect_to_nowhere_is_a_failure(server: Hostile, fetcher: Rig, path: str, status: int) -> None:
    outcome = (await fetcher.fetch(server.url(path))).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.status, outcome.retriable) == ("bad_redirect", status, False)


@pytest.mark.parametrize(("path", "status"), [("/missing", 404), ("/gone", 410), ("/teapot", 418), ("/choices", 300)])
async def test_other_statuses_fail_for_good(server: Hostile, fetcher: Rig, path: str, status: int) -> None:
    assert (await fetcher.fetch(server.url(path))).outcome == Failed("http", status)


async def test_429_and_5xx_may_pass_and_say_when(server: Hostile, fetcher: Rig) -> None:
    assert (await fetcher.fetch(server.url("/slowdown"))).outcome == Failed("http", 429, True, 17.0)
    assert (await fetcher.fetch(server.url("/broken"))).outcome == Failed("http", 500, True, 0.0)
    down = (await fetcher.fetch(server.url("/down"))).outcome
    assert isinstance(down, Failed)
    assert down.status == 503
    assert down.retry_after > 86_400 * 365


@pytest.mark.parametrize("zone", ["GMT", "", "-0000", "+0000"])
def test_a_date_in_retry_after_is_of_gmt_whatever_our_own_zone(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert retry_after(f"Tue, 14 Nov 2023 22:13:25 {zone}".strip(), 1_700_000_000.0) == 5.0
    finally:
        monkeypatch.undo()
        time.tzset()


async def test_without_a_descriptor_left_a_task_is_put_off_and_no_host_is_blamed(server: Hostile, fetcher: Rig) -> None:
    warm = (await fetcher.fetch(server.url("/", "127.0.0.2"))).outcome
    assert isinstance(warm, Fetched)  # what the client opens for itself is open
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
    try:
        answer = await fetcher.fetch(server.url("/"))
        asked = fetcher.trip.asked
        robots = await fetcher.fetch(server.url("/robots.txt"), kind="robots")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert answer.outcome == robots.outcome == Deferred(0.0, "exhausted")
    assert (asked, answer.figures.asked_at, robots.figures.asked_at) == (False, 0.0, 0.0)
    assert [seen.host for seen in server.log] == ["127.0.0.2"]


# ---- hostile answers ----


@pytest.mark.parametrize("path", ["/garbage", "/hangup", "/reset", "/banana", "/short", "/badchunk"])
async def test_what_is_not_http_is_a_protocol_failure_and_harms_nothing(
    server: Hostile, fetcher: Rig, path: str
) -> None:
    outcome = (await fetcher.fetch(server.url(path))).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.retriable) == ("protocol", True)
    assert len(outcome.detail) <= 210
    page_of(await fetcher.fetch(server.url("/")))


@pytest.mark.parametrize("path", ["/hangup", "/reset"])
async def test_a_host_that_hangs_up_on_a_fresh_connection_is_not_asked_twice(
    server: Hostile, fetcher: Rig, path: str
) -> None:
    await fetcher.fetch(server.url(path))
    assert len(server.log) == 1


async def test_a_kept_connection_that_went_stale_is_replaced_within_the_attempt(server: Hostile, fetcher: Rig) -> None:
    for _ in range(5):
        page_of(await fetcher.fetch(server.url("/lateclose")))


@pytest.mark.parametrize("path", ["/badgzip", "/shortgzip", "/unknown"])
async def test_a_broken_encoding_is_told_apart(server: Hostile, fetcher: Rig, path: str) -> None:
    outcome = (await fetcher.fetch(server.url(path))).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.status, outcome.retriable) == ("decode", 200, False)


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "gzip, gzip"])
async def test_a_bomb_stops_at_the_cap(server: Hostile, fetcher: Rig, encoding: str) -> None:
    server.routes["/bomb"] = html(f"Content-Encoding: {encoding}", body=bomb(64, encoding))
    outcome = (await fetcher.fetch(server.url("/bomb"))).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.status) == ("too_large", 200)


@pytest.mark.parametrize("path", ["/endless", "/announced"])
async def test_a_body_past_the_cap_is_not_read_to_its_end(server: Hostile, fetcher: Rig, path: str) -> None:
    outcome = (await fetcher.fetch(server.url(path))).outcome
    assert isinstance(outcome, Failed)
    assert outcome.reason == "too_large"


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_slow_drip_meets_the_deadline_of_the_whole_fetch(server: Hostile, client: str) -> None:
    async with rig(client, total=0.3) as fetcher:
        outcome = (await fetcher.fetch(server.url("/drip"))).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.status, outcome.retriable) == ("timeout", 200, True)


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_server_that_says_nothing_meets_the_read_timeout(server: Hostile, client: str) -> None:
    async with rig(client, read=0.2) as fetcher:
        outcome = (await fetcher.fetch(server.url("/silent"))).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.retriable) == ("timeout", True)


# ---- no server at all ----


async def test_a_closed_port_is_a_connect_failure(fetcher: Rig) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    outcome = (await fetcher.fetch(f"http://127.0.0.1:{port}/")).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.retriable) == ("connect", True)


async def test_a_server_that_does_not_speak_tls_is_a_tls_failure(server: Hostile, fetcher: Rig) -> None:
    server.routes["/"] = html()
    outcome = (await fetcher.fetch(server.url("/").replace("http:", "https:"))).outcome
    assert isinstance(outcome, Failed)
    assert outcome.reason in ("tls", "connect")


async def test_an_address_that_is_not_allowed_is_refused_and_never_reached(server: Hostile) -> None:
    for client in CLIENTS:
        async with rig(client, allow=()) as fetcher:
            for host in ("127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]"):
                outcome = (await fetcher.fetch(server.url("/", host))).outcome
                assert isinstance(outcome, Refused), (client, host, outcome)
                assert outcome.reason == "address"
                assert not fetcher.trip.asked
    assert not server.log


async def test_a_name_is_reached_at_its_vetted_address(server: Hostile, fetcher: Rig) -> None:
    page_of(await fetcher.fetch(server.url("/", "localhost")))
    assert server.log[-1].headers["host"] == f"localhost:{server.port}"


# ---- when a request counts as begun ----


async def test_the_moment_of_writing_lies_between_start_and_answer(server: Hostile, fetcher: Rig) -> None:
    for _ in range(3):
        await fetcher.fetch(server.url("/"))
        written = fetcher.trip.written
        assert written is not None
        assert fetcher.trip.started <= written <= fetcher.trip.answered <= time.monotonic()
        assert server.log[-1].at >= fetcher.trip.started


@pytest.mark.parametrize("path", ["/hangup", "/garbage"])
async def test_a_request_without_an_answer_was_written_at_no_known_time(
    server: Hostile, fetcher: Rig, path: str
) -> None:
    await fetcher.fetch(server.url(path))
    assert fetcher.trip.written is None
    assert fetcher.trip.asked


async def test_a_host_has_as_many_requests_under_way_as_are_begun(server: Hostile, fetcher: Rig) -> None:
    """How many that may be is the schedule's to say (`politeness.hosts`, connections=N); a client has no say in it."""
    gate = asyncio.Event()

    async def held(writer: asyncio.StreamWriter, seen: Seen) -> bool | None:
        await gate.wait()
        return await answer()(writer, seen)

    server.routes["/held"] = held
    asking = [asyncio.create_task(fetcher.fetch(server.url("/held"))) for _ in range(4)]
    async with asyncio.timeout(2.5):  # less than a client's patience with its own pool
        while server.open < 4:
            await asyncio.sleep(0.01)
    gate.set()
    for one in asking:
        page_of(await one)


async def test_a_connection_is_used_again(server: Hostile, fetcher: Rig) -> None:
    connections = set()
    original = server.routes["/"]

    async def note(writer: asyncio.StreamWriter, seen: object) -> bool | None:
        connections.add(id(writer))
        return await original(writer, seen)  # type: ignore[arg-type]

    server.routes["/"] = note
    for path in ("/", "/", "/missing", "/", "/png", "/"):
        await fetcher.fetch(server.url(path))
    assert len(connections) == 1


# ---- robots.txt ----


async def test_robots_txt_is_answered_with_its_text(server: Hostile, fetcher: Rig) -> None:
    answer = await fetcher.fetch(server.url("/robots.txt"), kind="robots")
    assert answer.outcome == Robots(200, b"User-agent: *\nDisallow: /private\n")


@pytest.mark.parametrize(("path", "status"), [("/missing", 404), ("/gone", 410)])
async def test_a_robots_txt_that_is_not_there_allows(server: Hostile, fetcher: Rig, path: str, status: int) -> None:
    assert (await fetcher.fetch(server.url(path), kind="robots")).outcome == Robots(status)


@pytest.mark.parametrize("path", ["/slowdown", "/down", "/hangup", "/garbage", "/badgzip"])
async def test_a_robots_txt_that_cannot_be_had_is_a_failure_that_may_pass(
    server: Hostile, fetcher: Rig, path: str
) -> None:
    outcome = (await fetcher.fetch(server.url(path), kind="robots")).outcome
    assert isinstance(outcome, Failed)
    assert outcome.retriable


async def test_a_long_robots_txt_is_cut_at_500_kib(server: Hostile, fetcher: Rig) -> None:
    outcome = (await fetcher.fetch(server.url("/bigrobots"), kind="robots")).outcome
    assert isinstance(outcome, Robots)
    assert len(outcome.text) == 500 * 1024


async def test_a_robots_txt_that_drips_is_given_up_like_a_page(
    server: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "GRACE", 0.2)
    async with rig("httptools", total=30.0, min_rate=100_000) as fetcher:
        outcome = (await fetcher.fetch(server.url("/drip"), kind="robots")).outcome
    assert isinstance(outcome, Failed)
    assert (outcome.reason, outcome.retriable) == ("too_slow", True)


async def test_robots_redirects_are_followed_in_place_each_in_its_turn(server: Hostile, fetcher: Rig) -> None:
    outcome = (await fetcher.fetch(server.url("/robotsmoved"), kind="robots", delay=9.0)).outcome
    assert isinstance(outcome, Robots)
    assert outcome.text.startswith(b"User-agent")
    assert fetcher.held == [server.url("/robots.txt")]


async def test_a_robots_redirect_to_another_host_waits_for_a_turn_there(server: Hostile, fetcher: Rig) -> None:
    async def elsewhere(writer: asyncio.StreamWriter, seen: object) -> bool:
        location = server.url("/robots.txt", "127.0.0.2").encode()
        writer.write(b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + location + b"\r\n\r\n")
        return True

    server.routes["/other"] = elsewhere
    outcome = (await fetcher.fetch(server.url("/other"), kind="robots", delay=9.0)).outcome
    assert isinstance(outcome, Robots)
    assert outcome.status == 200
    assert fetcher.held == [server.url("/robots.txt", "127.0.0.2")]


async def test_robots_redirects_without_an_end_mean_there_is_none(server: Hostile, fetcher: Rig) -> None:
    assert (await fetcher.fetch(server.url("/robotsloop"), kind="robots")).outcome == Robots(302)
    assert len(server.log) == 6


async def test_a_robots_redirect_to_a_private_address_is_not_followed(server: Hostile, fetcher: Rig) -> None:
    answer = await fetcher.fetch(server.url("/robotsprivate"), kind="robots")
    assert isinstance(answer.outcome, Failed)
    assert answer.outcome.retriable
    assert answer.outcome.detail.startswith("robots redirected into a refused address")
    assert answer.figures.asked_at > 0
    assert answer.figures.hops == ()


# ---- many at once ----


@pytest.mark.parametrize("client", CLIENTS)
async def test_more_hosts_than_connections_may_be_kept_all_get_their_pages(server: Hostile, client: str) -> None:
    async with rig(client, idle=4) as fetcher:
        for turn in range(2):
            urls = [server.url("/", f"127.0.1.{n}") for n in range(1, 21)]
            answers = await asyncio.gather(*(fetcher.fetch(url) for url in urls))
            assert all(isinstance(answer.page, FetchedPage) for answer in answers), turn
        # The server keeps every connection, whatever it was asked: to close them is ours.
        async with asyncio.timeout(30):
            while server.connected > 4 and client != "httpx":  # which closes one for each new request only
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("client", CLIENTS)
async def test_bodies_larger_than_memory_together_all_come(server: Hostile, client: str) -> None:
    server.routes["/large"] = html(body=bytes(200_000))
    async with rig(client, max_memory=300_000) as fetcher:
        urls = [server.url("/large", f"127.0.1.{n}") for n in range(1, 13)]
        answers = await asyncio.gather(*(fetcher.fetch(url) for url in urls))
        assert all(isinstance(answer.page, FetchedPage) for answer in answers)


async def test_a_budget_smaller_than_the_cap_has_a_name_of_its_own(server: Hostile, fetcher: Rig) -> None:
    for path in ("/", "/gzip", "/untilclose"):
        outcome = (await fetcher.fetch(server.url(path), max_bytes=len(PAGE) - 1)).outcome
        assert isinstance(outcome, Failed)
        assert (outcome.reason, outcome.retriable) == ("over_budget", False)
        page_of(await fetcher.fetch(server.url(path), max_bytes=len(PAGE)))
    endless = (await fetcher.fetch(server.url("/endless"), max_bytes=10**9)).outcome
    assert isinstance(endless, Failed)
    assert endless.reason == "too_large"


# ---- what a result says of its attempt ----


async def test_an_attempt_says_when_it_asked_how_and_what_came(server: Hostile, fetcher: Rig) -> None:
    before = time.time()
    answer = await fetcher.fetch(server.url("/gzip"), store=False)
    figures, page = answer.figures, page_of(answer)
    assert before <= figures.asked_at <= time.time()
    assert (figures.protocol, page.protocol, figures.hops) == ("HTTP/1.1", "HTTP/1.1", ())
    assert 0 < figures.received < len(PAGE)
    assert page.store is False
    assert figures.phases.connect >= -1
    assert min(figures.phases.first_byte, figures.phases.body) >= 0


async def test_an_attempt_that_sent_nothing_was_asked_at_no_time(fetcher: Rig) -> None:
    for url in ("http://127.0.0.1:1/", "http://10.0.0.1/", "http://no-such-name.invalid/"):
        answer = await fetcher.fetch(url)
        assert answer.figures.asked_at == 0.0, answer


async def test_an_attempt_without_an_answer_was_asked_before_its_end(server: Hostile, fetcher: Rig) -> None:
    before = time.time()
    answer = await fetcher.fetch(server.url("/hangup"))
    assert before <= answer.figures.asked_at <= time.time()


async def test_every_request_of_a_robots_txt_is_told_of_the_host_it_went_to(server: Hostile, fetcher: Rig) -> None:
    away = server.url("/robotsmoved", "127.0.0.2")
    server.routes["/away"] = raw(f"HTTP/1.1 302 Found\r\nLocation: {away}\r\nContent-Length: 0\r\n\r\n".encode())
    figures = (await fetcher.fetch(server.url("/away"), kind="robots")).figures
    assert [host for host, _ in figures.hops] == ["127.0.0.2", "127.0.0.2"]
    assert 0 < figures.asked_at <= figures.hops[0][1] <= figures.hops[1][1]
    moved = (await fetcher.fetch(server.url("/robotsmoved"), kind="robots")).figures
    assert [host for host, _ in moved.hops] == ["127.0.0.1"]
    assert 0 < moved.hops[0][1] <= moved.asked_at
