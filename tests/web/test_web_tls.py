"""The same web over TLS, and the ways of sending that only its clients can tell apart."""

import shutil
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import WebSpec

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")


@pytest.fixture(scope="module")
def web() -> Iterator[RunningWeb]:
    with RunningWeb(WebSpec(hosts=300, pages=5, size=2_000, tls=True)) as running:
        yield running


def ask(web: RunningWeb, host: int, path: str = "/", *, trusting: Path | None = None, times: int = 1) -> list[bytes]:
    """Bodies, by one connection."""
    context = ssl.create_default_context(cafile=trusting or web.ca)
    address = web.spec.address(host)
    bodies = []
    with socket.create_connection((address, web.port), timeout=5) as plain:
        with context.wrap_socket(plain, server_hostname=address) as connection:
            answers = connection.makefile("rb")
            for _ in range(times):
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: {address}:{web.port}\r\n\r\n".encode())
                length = 0
                while (line := answers.readline()) not in (b"\r\n", b""):
                    name, _, value = line.partition(b":")
                    length = int(value) if name == b"Content-Length" else length
                bodies.append(answers.read(length))
    return bodies


@needs_openssl
@pytest.mark.parametrize("host", [0, 1, 249, 250, 299])
def test_every_host_has_a_name_in_the_certificate_and_gives_its_pages(web: RunningWeb, host: int) -> None:
    expected = web.site.answer(web.spec.address(host), "/p/2", {}).body
    assert ask(web, host, "/p/2", times=2) == [expected, expected]
    first, second = web.requests()[-2:]
    assert (first.ip, first.path, first.conn) == (web.spec.address(host), "/p/2", second.conn)


@needs_openssl
def test_links_lead_to_https(web: RunningWeb) -> None:
    assert web.url(3).startswith("https://127.10.0.4:")
    links = [page.url for page in web.expected()]
    assert len(links) == 300 * 5
    assert all(link.startswith("https://") for link in links)


@needs_openssl
def test_only_who_is_told_of_its_authority_trusts_it(web: RunningWeb, tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=1, pages=1, tls=True), folder=tmp_path) as other:
        assert other.ca != web.ca
        with pytest.raises(ssl.SSLCertVerificationError):
            ask(web, 0, trusting=other.ca)


@needs_openssl
def test_what_speaks_no_tls_gets_no_page_and_does_not_kill_the_server(web: RunningWeb) -> None:
    before = len(web.requests())
    with socket.create_connection((web.spec.address(0), web.port), timeout=5) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        try:
            assert b"200" not in connection.recv(1_000)
        except ConnectionResetError:
            pass
    assert len(web.requests()) == before
    assert ask(web, 0)


@needs_openssl
def test_a_web_that_comes_back_with_more_hosts_is_of_the_same_authority(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=2, pages=2, tls=True), folder=tmp_path) as web:
        authority = web.ca.read_bytes()
        web.restart(msgspec.structs.replace(web.spec, hosts=20))
        assert ask(web, 19)
        assert web.ca.read_bytes() == authority


@needs_openssl
def test_the_command_says_what_to_trust(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.web", "--hosts", "2", "--tls", "--certificates", str(tmp_path / "tls")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready https://127.10.0.1:")
        assert process.stdout.readline().strip().endswith(f"SSL_CERT_FILE={tmp_path / 'tls' / 'ca.pem'}")
        process.terminate()
        assert process.wait(10) == 0


def test_more_hosts_than_one_certificate_can_name_are_an_error() -> None:
    with pytest.raises(ValueError, match="certificate"):
        WebSpec(hosts=5_001, tls=True)


def test_without_keep_alive_a_connection_is_good_for_one_answer() -> None:
    with RunningWeb(WebSpec(hosts=1, pages=2, size=500, keep_alive=False)) as web:
        with socket.create_connection((web.spec.address(0), web.port), timeout=5) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
            received = b"".join(iter(lambda: connection.recv(65_536), b""))
        assert received.count(b"HTTP/1.1 200 OK") == 1
        assert b"\r\nConnection: close\r\n" in received
        assert len(web.requests()) == 1


def test_a_dripping_host_sends_all_of_its_page_but_slowly_and_holds_nobody_up() -> None:
    spec = WebSpec(hosts=3, pages=2, size=400, spread=0, cross=0, slow_hosts=1, drip_hosts=1, drip_rate=2_000)
    with RunningWeb(spec) as web:
        body = web.site.answer(spec.address(1), "/p/1", {}).body
        with socket.create_connection((spec.address(1), web.port), timeout=5) as dripping:
            dripping.sendall(b"GET /p/1 HTTP/1.1\r\nHost: x\r\n\r\n")
            received = dripping.recv(65_536)
            assert len(received) < len(body)
            with socket.create_connection((spec.address(0), web.port), timeout=5) as other:
                other.sendall(b"GET /p/1 HTTP/1.0\r\n\r\n")
                assert other.recv(65_536).startswith(b"HTTP/1.1 200 OK")
            received += b"".join(iter(lambda: dripping.recv(65_536), b""))
        assert received.endswith(body)


def test_more_slow_and_dripping_hosts_than_hosts_are_an_error() -> None:
    with pytest.raises(ValueError, match="dripping"):
        WebSpec(hosts=2, slow_hosts=2, drip_hosts=1)
