"""The server over real sockets."""

import hashlib
import itertools
import json
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDictProxy
from yarl import URL

from benchmarks.web.expected import identity
from benchmarks.web.graph import Kind, Node
from benchmarks.web.running import RunningWeb, WebDidNotStart
from benchmarks.web.server import BadRequest, parse
from benchmarks.web.site import Site
from benchmarks.web.spec import Errors, Redirects, RobotsKinds, WebSpec
from tests.web.walker import walk

RICH = WebSpec(
    hosts=12,
    pages=40,
    size=2_000,
    foreign=0.2,
    errors=Errors(missing=0.05, flaky=0.05, busy=0.05),
    redirects=Redirects(inside=0.06, across=0.06, chain=0.06, slash=0.06, order=0.06),
    robots=RobotsKinds(disallow=0.3, delay=0.2, missing=0.2),
    validators=True,
    twins=0.1,
    files=0.2,
    gzip=True,
)


@pytest.fixture(scope="module")
def rich() -> Iterator[RunningWeb]:
    with RunningWeb(RICH) as web:
        yield web


def some(web: RunningWeb, kind: Kind, nth: int = 0) -> Node:
    """A page of this kind; each test takes another one where the first request counts."""
    graph = web.site.graph
    nodes = (Node(host, page) for host in range(web.spec.hosts) for page in range(1, web.spec.pages))
    return next(itertools.islice((node for node in nodes if graph.kind(node) == kind), nth, None))


def raw(web: RunningWeb, data: bytes, host: int = 0, timeout: float = 5.0) -> bytes:
    """Everything the server sends back until it closes, or falls silent."""
    with socket.create_connection((web.spec.address(host), web.port), timeout=timeout) as connection:
        connection.sendall(data)
        received = b""
        try:
            while more := connection.recv(65_536):
                received += more
        except TimeoutError:
            pass
        return received


async def get(web: RunningWeb, host: int, path: str, **headers: str) -> tuple[int, "CIMultiDictProxy[str]", bytes]:
    url = URL(web.url(host, path), encoded=True)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    async with aiohttp.ClientSession() as session, session.get(url, headers=names, allow_redirects=False) as answer:
        return answer.status, answer.headers, await answer.read()


# ---- what a crawl gets ---------------------------------------------------------------------------


async def test_a_real_walk_of_the_plain_web_gets_exactly_what_the_model_expects() -> None:
    with RunningWeb(WebSpec(hosts=15, pages=20, size=2_000)) as web:
        visited = await walk(web.seeds())
        assert visited == {page.url: (page.status, page.sha256) for page in web.expected()}
        assert Counter(request.path for request in web.requests())["/p/7"] == 15


async def test_a_real_walk_of_a_web_with_everything_gets_exactly_what_the_model_expects() -> None:
    with RunningWeb(RICH) as web:
        visited = await walk(web.seeds(), disallowed="/private/")
        found = [page for page in web.expected() if "/private/" not in page.url]
        assert {identity(url) for url in visited} == {identity(page.url) for page in found}
        for page in found:
            assert visited[page.url] == (page.status, page.sha256), page.url
        spellings = {url for page in found for url in page.spellings}
        assert visited.keys() == spellings


# ---- the log -------------------------------------------------------------------------------------


async def test_every_request_is_in_the_log_in_order_with_the_time_it_arrived() -> None:
    with RunningWeb(WebSpec(hosts=3, pages=5, latency_ms=30)) as web:
        times = []
        for path in ("/", "/p/1", "/robots.txt", "/nothing"):
            before = time.monotonic()
            await get(web, 1, path, User_Agent="tester/1", If_None_Match='"x"')
            times.append((before, time.monotonic()))
        requests = web.requests()
        assert [(one.ip, one.path, one.status, one.ua, one.inm) for one in requests] == [
            ("127.10.0.2", "/", 200, "tester/1", '"x"'),
            ("127.10.0.2", "/p/1", 200, "tester/1", '"x"'),
            ("127.10.0.2", "/robots.txt", 200, "tester/1", '"x"'),
            ("127.10.0.2", "/nothing", 404, "tester/1", '"x"'),
        ]
        for one, (before, after) in zip(requests, times, strict=True):
            assert before <= one.t <= after
            assert after - before >= 0.03
        assert len({one.conn for one in requests}) == 4


def test_a_request_is_in_the_log_before_its_answer_and_though_the_client_is_gone() -> None:
    with RunningWeb(WebSpec(hosts=1, pages=2, latency_ms=60_000)) as web:
        with socket.create_connection((web.spec.address(0), web.port)) as connection:
            connection.sendall(b"GET /p/1 HTTP/1.1\r\nHost: x\r\n\r\n")
        deadline = time.monotonic() + 10
        while not web.requests() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [one.path for one in web.requests()] == ["/p/1"]


async def test_gaps_are_per_host_and_those_too_short_are_named() -> None:
    with RunningWeb(WebSpec(hosts=3, pages=2, robots=RobotsKinds(delay=1.0), crawl_delay=30)) as web:
        for host in (0, 0, 1, 2):
            await get(web, host, "/")
        assert [gap.ip for gap in web.gaps()] == [web.spec.address(0)]
        assert web.under(0.0) == []
        assert [gap.ip for gap in web.under(60.0)] == [web.spec.address(0)]
        await get(web, 2, "/p/1")
        assert [gap.ip for gap in web.under(0.0)] == [web.spec.address(2)]  # it asks for a Crawl-delay


# ---- features ------------------------------------------------------------------------------------


async def test_a_flaky_page_fails_once_and_a_busy_one_says_when_to_come_back(rich: RunningWeb) -> None:
    flaky, busy = some(rich, "flaky"), some(rich, "busy")
    path = rich.site.graph.path(flaky)
    assert [(await get(rich, flaky.host, path))[0] for _ in range(3)] == [500, 200, 200]
    first = await get(rich, busy.host, rich.site.graph.path(busy))
    assert (first[0], first[1]["Retry-After"]) == (503, "1")
    assert (await get(rich, busy.host, rich.site.graph.path(busy)))[0] == 200


async def test_redirects_lead_to_the_page_inside_across_and_in_chains(rich: RunningWeb) -> None:
    chain = some(rich, "chain")
    hops = rich.site.graph.hops(chain)
    assert hops in (2, 3)
    seen = []
    path = f"/r/{chain.page}/{hops}"
    while "/r/" in path:
        status, headers, _ = await get(rich, chain.host, path)
        seen.append(status // 100)
        path = headers["Location"]
    assert seen == [3] * hops
    assert path.endswith(rich.site.graph.path(chain))
    across = some(rich, "across")
    status, headers, _ = await get(rich, rich.site.graph.door(across), f"/go/{across.host}/{across.page}")
    assert (status, headers["Location"]) == (302, rich.url(across.host, f"/p/{across.page}"))


async def test_a_slash_and_an_order_of_parameters_are_redirected_to_the_right_one(rich: RunningWeb) -> None:
    slash, order = some(rich, "slash"), some(rich, "order")
    status, headers, _ = await get(rich, slash.host, f"/p/{slash.page}")
    assert (status, headers["Location"].endswith(f"/p/{slash.page}/")) == (301, True)
    assert (await get(rich, slash.host, f"/p/{slash.page}/"))[0] == 200
    status, headers, _ = await get(rich, order.host, f"/p/{order.page}?b=2&a=1")
    assert (status, headers["Location"].endswith(f"/p/{order.page}?a=1&b=2")) == (301, True)


async def test_validators_sent_back_are_answered_304_without_a_body(rich: RunningWeb) -> None:
    _, headers, body = await get(rich, 0, "/")
    assert len(body) > 1_000
    for sent in ({"If_None_Match": headers["ETag"]}, {"If_Modified_Since": headers["Last-Modified"]}):
        status, again, nothing = await get(rich, 0, "/", **sent)
        assert (status, nothing) == (304, b"")
        assert again["ETag"] == headers["ETag"]
    other = {"If_None_Match": '"other"', "If_Modified_Since": headers["Last-Modified"]}
    assert (await get(rich, 0, "/", **other))[0] == 200
    assert (await get(rich, 0, "/", If_Modified_Since="never"))[0] == 200
    assert any(request.ims == "never" for request in rich.requests())


async def test_a_later_revision_changes_some_pages_and_their_validators() -> None:
    spec = WebSpec(hosts=2, pages=20, validators=True, changing=0.3)
    with RunningWeb(spec) as web:
        port, before = web.port, {page.url: page.sha256 for page in web.expected()}
        _, headers, _ = await get(web, 0, "/p/3")
        web.restart(msgspec.structs.replace(spec, revision=1))
        assert web.port == port
        after = {page.url: page.sha256 for page in web.expected()}
        changed = [url for url in before if before[url] != after[url]]
        assert 0 < len(changed) < len(before)
        status, _, _ = await get(web, 0, "/p/3", If_None_Match=headers["ETag"])
        assert status == (200 if web.url(0, "/p/3") in changed else 304)
        assert len(web.requests()) == 2  # one log for both


async def test_each_kind_of_robots_txt_says_what_it_should() -> None:
    kinds = {
        "disallow": RobotsKinds(disallow=1.0),
        "delay": RobotsKinds(delay=1.0),
        "missing": RobotsKinds(missing=1.0),
    }
    kinds["down"] = RobotsKinds(down=1.0)
    got = {}
    for name, robots in kinds.items():
        with RunningWeb(WebSpec(hosts=2, pages=2, robots=robots)) as web:
            assert b"Allow: /\n" in (await get(web, 0, "/robots.txt"))[2]  # the first host is always open
            status, _, body = await get(web, 1, "/robots.txt")
            got[name] = status, body
    assert (got["missing"][0], got["down"][0]) == (404, 503)
    assert b"User-agent: *\nDisallow: /private/\nAllow: /private/open/\n" in got["disallow"][1]
    assert b"Crawl-delay: 1\n" in got["delay"][1]


async def test_files_are_not_html_and_gzip_is_only_for_who_takes_it(rich: RunningWeb) -> None:
    _, headers, body = await get(rich, 0, "/file/3")
    assert (headers["Content-Type"], body[:4]) == ("application/pdf", b"%PDF")
    plain = raw(rich, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    packed = raw(rich, b"GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n")
    assert b"Content-Encoding" not in plain
    assert b"Content-Encoding: gzip" in packed
    assert len(packed) < len(plain)
    _, _, body = await get(rich, 0, "/")
    assert body == plain.partition(b"\r\n\r\n")[2]


async def test_hot_hosts_have_more_pages_and_slow_ones_take_longer() -> None:
    with RunningWeb(WebSpec(hosts=3, pages=4, hot_hosts=1, hot_pages=50, slow_hosts=1, slow_ms=80)) as web:
        assert [(await get(web, host, "/p/49"))[0] for host in (0, 1)] == [200, 404]
        started = time.monotonic()
        await get(web, 2, "/")
        assert time.monotonic() - started >= 0.08
        assert len(web.expected()) == 50 + 4 + 4


async def test_thousands_of_hosts_answer() -> None:
    with RunningWeb(WebSpec(hosts=3_000, pages=3)) as web:
        for host in (0, 249, 250, 1_234, 2_999):
            status, _, body = await get(web, host, "/p/2")
            answer = web.site.answer(web.spec.address(host), "/p/2", {})
            assert (status, hashlib.sha256(body).digest()) == (200, hashlib.sha256(answer.body).digest())


# ---- the protocol --------------------------------------------------------------------------------


def test_pipelined_requests_are_answered_in_order_though_they_wait() -> None:
    with RunningWeb(WebSpec(hosts=1, pages=10, size=500, latency_ms=20)) as web:
        asked = [f"/p/{1 + number % 9}" for number in range(200)]
        requests = "".join(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n" for path in asked)
        received = raw(web, requests.encode() + b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", timeout=20)
        pages = [answer.partition(b"<p>Page ")[2].partition(b".")[0] for answer in received.split(b"HTTP/1.1 200")[1:]]
        assert pages == [path[3:].encode() for path in asked] + [b"0"]
        assert [one.path for one in web.requests()] == [*asked, "/"]


def test_a_request_that_comes_in_pieces_is_one_request(rich: RunningWeb) -> None:
    with socket.create_connection((rich.spec.address(0), rich.port), timeout=5) as connection:
        for piece in (b"GET / HT", b"TP/1.1\r\nHo", b"st: x\r\nConnection: close\r", b"\n\r", b"\n"):
            connection.sendall(piece)
            time.sleep(0.02)  # so that they travel apart
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200 OK\r\n")


def test_head_has_the_headers_alone(rich: RunningWeb) -> None:
    received = raw(rich, b"HEAD / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert received.endswith(b"\r\n\r\n")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"rubbish\r\n\r\n", 400),
        (b"rubbish\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01", 400),
        (b"GET  / HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET nowhere HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET /\x00 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400),
        (b"\xff\xfe\xfd\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 405),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc", 413),
        (b"GET / HTTP/1.1\r\nHost: 127.10.0.2\r\n\r\n", 421),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 70_000, 431),
    ],
)
def test_a_malformed_request_is_refused_and_logged_and_does_not_kill_the_server(
    rich: RunningWeb, sent: bytes, status: int
) -> None:
    assert raw(rich, sent).startswith(b"HTTP/1.1 %d " % status)
    assert rich.requests()[-1].status == status
    assert raw(rich, b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")


@given(st.one_of(st.binary(max_size=200), st.binary(max_size=80).map(lambda rest: b"GET / HTTP/1.1\r\n" + rest)))
def test_any_bytes_are_a_request_or_a_bad_request(head: bytes) -> None:
    try:
        _, target, headers, _ = parse(head)
        status = Site(WebSpec(port=1, hosts=1, pages=2)).answer("127.10.0.1", target, headers).status
    except BadRequest as bad:
        status = bad.status
    assert status in (200, 400, 404, 405, 413)


def test_connections_that_break_off_do_not_kill_the_server(rich: RunningWeb) -> None:
    for _ in range(50):
        with socket.create_connection((rich.spec.address(1), rich.port)) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset, not an end
            connection.sendall(b"GET /p/1 HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
    assert raw(rich, b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_client_that_asks_and_never_reads_is_not_read_for_ever(rich: RunningWeb) -> None:
    with socket.create_connection((rich.spec.address(1), rich.port)) as connection:
        connection.settimeout(1.0)
        with pytest.raises(TimeoutError):
            connection.sendall(b"GET /p/1 HTTP/1.1\r\nHost: x\r\n\r\n" * 1_000_000)
    assert raw(rich, b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 OK\r\n")


# ---- the process ---------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_says_when_it_is_ready_and_ends_well_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    command = [sys.executable, "-m", "benchmarks.web", "--port", "0", "--log", str(tmp_path / "log"), "--hosts", "3"]
    command += ["--errors", "0.1", "--redirects", "chain=0.2", "--latency-ms", "5", "--gzip"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline().decode()
        assert line.startswith("ready http://127.10.0.1:")
        process.send_signal(number)
        assert process.wait(10) == 0


def test_the_list_is_what_a_running_web_expects(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.web", "--list", "--hosts", "4", "--pages", "6"]
    with RunningWeb(WebSpec(hosts=4, pages=6), folder=tmp_path) as web:
        listed = subprocess.run([*command, "--port", str(web.port)], capture_output=True, check=True).stdout
        assert [json.loads(line) for line in listed.splitlines()] == [msgspec.to_builtins(p) for p in web.expected()]
    assert (tmp_path / "requests.jsonl").exists()


@pytest.mark.parametrize("wrong", [["--pages", "0"], ["--errors", "nonsense=1"], ["--errors", "2"], ["--spec", "{"]])
def test_a_spec_that_makes_no_sense_is_an_error_and_not_a_web(wrong: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "benchmarks.web", *wrong], capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_a_port_that_is_taken_is_said_so() -> None:
    with RunningWeb(WebSpec(hosts=1, pages=1)) as web:
        with pytest.raises(WebDidNotStart), RunningWeb(WebSpec(hosts=1, pages=1, port=web.port), quiet=True):
            pass


def test_the_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    script = (
        "from benchmarks.web.running import RunningWeb\nimport os, pathlib, sys\n"
        "web = RunningWeb(folder=pathlib.Path(sys.argv[1])).__enter__()\n"
        "print(web.pid, web.port, flush=True)\nos._exit(1)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    port = int(done.stdout.split()[1])
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.10.0.1", port), timeout=1).close()
        except OSError:
            return
        time.sleep(0.02)
    pytest.fail("it still listens")


def test_other_addresses_of_the_machine_are_not_served() -> None:
    own = _own_address()
    if own is None:
        pytest.skip("this machine has loopback only")
    with RunningWeb(WebSpec(hosts=1, pages=1)) as web:
        received = b""
        try:
            with socket.create_connection((own, web.port), timeout=5) as connection:
                connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
                received = connection.recv(100)
        except OSError:
            pass
        assert received == b""
        assert web.requests() == []


def _own_address() -> str | None:
    """The address of the route outwards; a connected UDP socket sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return None
        address: str = probe.getsockname()[0]
        return None if address.startswith("127.") else address
