"""A small web on loopback that answers as a test tells it to, request by request."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple, Self

_HELD = 60.0  # seconds; only a failure holds a request that long


class Reply(NamedTuple):
    status: int = 200
    body: str = ""
    headers: tuple[tuple[str, str], ...] = ()


def page(*links: str) -> Reply:
    anchors = "".join(f'<a href="{link}">link</a>\n' for link in links)
    body = f"<!doctype html><html><head><title>a page</title></head><body>words\n{anchors}</body></html>"
    return Reply(200, body, (("Content-Type", "text/html; charset=utf-8"),))


def moved(to: str, status: int = 301) -> Reply:
    return Reply(status, "", (("Location", to),))


def robots(*lines: str) -> Reply:
    return Reply(200, "\n".join(lines) + "\n", (("Content-Type", "text/plain"),))


def failing(status: int, *headers: tuple[str, str]) -> Reply:
    return Reply(status, "no", headers)


class ScriptedWeb:
    """A context manager. `hosts` are addresses in 127/8 that share one port; what no reply is set for is 404."""

    def __init__(self, *hosts: str) -> None:
        self._hosts = hosts
        self._replies: dict[str, Reply] = {}
        self._held: dict[str, threading.Event] = {}
        self._servers: list[ThreadingHTTPServer] = []
        self.asked: list[str] = []
        """URLs, in the order in which they were asked for."""
        self.port = 0

    def __enter__(self) -> Self:
        while not self._servers:
            try:
                self._listen()
            except OSError:  # the port is taken on one of the other addresses
                self._close()
        for server in self._servers:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for held in self._held.values():
            held.set()
        for server in self._servers:
            server.shutdown()
        self._close()

    def url(self, path: str, host: int = 0) -> str:
        return f"http://{self._hosts[host]}:{self.port}{path}"

    def set(self, path: str, reply: Reply, host: int = 0) -> str:
        url = self.url(path, host)
        self._replies[url] = reply
        return url

    def hold(self, path: str, host: int = 0) -> Callable[[], None]:
        """Requests for it get no answer before the returned function is called."""
        held = self._held[self.url(path, host)] = threading.Event()
        return held.set

    def _listen(self) -> None:
        port = 0
        for host in self._hosts:
            self._servers.append(_Server((host, port), self._handler()))
            port = self._servers[0].server_address[1]
        self.port = port

    def _close(self) -> None:
        for server in self._servers:
            server.server_close()
        self._servers = []

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                url = f"http://{self.headers['Host']}{self.path}"
                web.asked.append(url)
                if held := web._held.get(url):
                    held.wait(_HELD)
                reply = web._replies.get(url, Reply(404, "not here"))
                body = reply.body.encode()
                self.send_response(reply.status)
                for name, value in reply.headers:
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A crawler that was killed in the middle of an answer."""
