"""The pure model of the web: a request in, an answer out. No clock, no I/O; one for the server and for the judge."""

import gzip
from collections.abc import Mapping
from email.utils import formatdate, parsedate_to_datetime
from typing import NamedTuple

from benchmarks.web.graph import Graph, Node
from benchmarks.web.prose import BLOCK, Prose, site_name, topic
from benchmarks.web.spec import WebSpec

Headers = tuple[tuple[str, str], ...]

HTML: Headers = (("Content-Type", "text/html; charset=utf-8"),)
TEXT: Headers = (("Content-Type", "text/plain; charset=utf-8"),)
PDF: Headers = (("Content-Type", "application/pdf"),)

_BORN = 1_700_000_000  # Last-Modified of the oldest page, seconds since the epoch
_REDIRECTS = (301, 302, 303, 307, 308)
_NOT_FOUND = b"<!doctype html><title>Not found</title><p>There is no such page.</p>\n"
_BROKEN = b"<!doctype html><title>Error</title><p>The wheel is stuck.</p>\n"


class Answer(NamedTuple):
    status: int
    headers: Headers
    body: bytes
    delay: float = 0.0
    """Seconds to wait before it is sent."""
    drip: int = 0
    """Bytes a second that it is sent with; 0: all at once."""
    passing: bool = False
    """The next request for the same will be answered otherwise."""


class Site:
    """All hosts of one spec, whose port must be known."""

    def __init__(self, spec: WebSpec) -> None:
        self.spec = spec
        self.graph = Graph(spec)
        self.hosts = {address: host for host, address in enumerate(self.graph.addresses)}
        self._prose = Prose(spec.seed)

    def answer(self, address: str, target: str, headers: Mapping[str, str], earlier: int = 0) -> Answer:
        """`target` is path and query; names in `headers` are lower-case; `earlier`: requests for the same so far."""
        host = self.hosts.get(address)
        if host is None:
            return Answer(404, HTML, _NOT_FOUND)
        answer = self._route(host, target, headers, earlier)
        return answer._replace(delay=self.spec.delay_of(host), drip=self.spec.drip_of(host))

    def allowed(self, address: str, target: str) -> bool:
        """What robots.txt says, or what its absence means."""
        kind = self.graph.robots_kind(self.hosts[address])
        if kind == "disallow":
            return not target.startswith("/private/") or target.startswith("/private/open/")
        return kind != "down"

    def crawl_delay(self, address: str) -> float:
        host = self.hosts.get(address)
        return self.spec.crawl_delay if host is not None and self.graph.robots_kind(host) == "delay" else 0.0

    def links(self, address: str, target: str) -> list[str]:
        """The absolute URLs that the page at `target` links to, without fragments; [] if it is no page."""
        host = self.hosts[address]
        node = self._node(host, target.partition("?")[0])
        if node is None:
            return []
        hrefs = (href.partition("#")[0] for href in self.graph.links(node))
        found = (self.graph.url(host, href) if href[0] == "/" else href for href in hrefs)
        return list(dict.fromkeys(url for url in found if url.startswith("http")))

    # ---- from a target to what is there ----------------------------------------------------------

    def _route(self, host: int, target: str, headers: Mapping[str, str], earlier: int) -> Answer:
        path, _, query = target.partition("?")
        node = self._node(host, path)
        if node is not None:
            return self._at_page(node, path, query, headers, earlier)
        if path == "/robots.txt":
            return self._robots(host)
        match path.split("/")[1:]:
            case ["r", page, hop]:
                return self._redirector(host, _number(page), _number(hop))
            case ["go", there, page]:
                return self._door(host, _number(there), _number(page))
            case ["file", page] if self._has(host, _number(page)):
                return Answer(200, PDF, b"%%PDF-1.4\n%% file %s of host %d\n%%%%EOF\n" % (page.encode(), host))
            case ["private", page] | ["private", "open", page] if self._has(host, _number(page)):
                return Answer(200, HTML, f"<!doctype html><title>Private {page}</title><p>{host}</p>\n".encode())
            case _:
                return Answer(404, HTML, _NOT_FOUND)

    def _node(self, host: int, path: str) -> Node | None:
        if path == "/":
            return Node(host, 0)
        if not path.startswith("/p/"):
            return None
        page = _number(path[3:].removesuffix("/"))
        return Node(host, page) if page > 0 and self._has(host, page) else None

    def _has(self, host: int, page: int) -> bool:
        return 0 <= page < self.spec.pages_of(host)

    def _at_page(self, node: Node, path: str, query: str, headers: Mapping[str, str], earlier: int) -> Answer:
        kind = self.graph.kind(node)
        if path != "/" and path.endswith("/") != (kind == "slash"):
            return self._moved(node, 301) if kind == "slash" else Answer(404, HTML, _NOT_FOUND)
        if kind == "order" and query != "a=1&b=2":
            return self._moved(node, 301) if query == "b=2&a=1" else Answer(404, HTML, _NOT_FOUND)
        if kind == "missing":
            return Answer(404, HTML, _NOT_FOUND)
        if kind == "broken" or (kind == "flaky" and not earlier):
            return Answer(500, HTML, _BROKEN, passing=kind == "flaky")
        if kind == "busy" and not earlier:
            return Answer(503, (*HTML, ("Retry-After", str(self.spec.retry_after))), _BROKEN, passing=True)
        return self._page(node, headers)

    def _redirector(self, host: int, page: int, hop: int) -> Answer:
        node = Node(host, page)
        if page < 1 or not self._has(host, page) or not 1 <= hop <= self.graph.hops(node):
            return Answer(404, HTML, _NOT_FOUND)
        if hop == 1:
            return self._moved(node)
        return Answer(302, (*HTML, ("Location", f"/r/{page}/{hop - 1}")), b"")

    def _door(self, host: int, there: int, page: int) -> Answer:
        node = Node(there, page)
        known = 0 <= there < self.spec.hosts and page > 0 and self._has(there, page)
        if not known or self.graph.kind(node) != "across" or self.graph.door(node) != host:
            return Answer(404, HTML, _NOT_FOUND)
        return Answer(302, (*HTML, ("Location", self.graph.url(there, self.graph.path(node)))), b"")

    def _moved(self, node: Node, status: int = 0) -> Answer:
        """To the page itself, by path or by whole URL: clients must take both."""
        path = self.graph.path(node)
        location = path if node.page % 2 else self.graph.url(node.host, path)
        status = status or _REDIRECTS[self.graph.draw("status", *node) % len(_REDIRECTS)]
        return Answer(status, (*HTML, ("Location", location)), b"")

    def _robots(self, host: int) -> Answer:
        others = "User-agent: decoybot\nDisallow: /\n\nUser-agent: *\n"
        match self.graph.robots_kind(host):
            case "missing":
                return Answer(404, HTML, _NOT_FOUND)
            case "down":
                return Answer(503, HTML, _BROKEN)
            case "disallow":
                rules = "Disallow: /private/\nAllow: /private/open/\n"
            case "delay":
                rules = f"Crawl-delay: {self.spec.crawl_delay:g}\nAllow: /\n"
            case "plain":
                rules = "Allow: /\n"
        return Answer(200, TEXT, (others + rules).encode())

    # ---- a page ----------------------------------------------------------------------------------

    def _page(self, node: Node, headers: Mapping[str, str]) -> Answer:
        spec, fields = self.spec, HTML
        if spec.validators:
            etag, modified = self._validators(node)
            fields = (*HTML, ("ETag", etag), ("Last-Modified", formatdate(modified, usegmt=True)))
            if _unchanged(headers, etag, modified):
                return Answer(304, fields[1:], b"")
        body = self._body(node)
        if spec.gzip:
            fields = (*fields, ("Vary", "Accept-Encoding"))
            if "gzip" in headers.get("accept-encoding", ""):
                return Answer(200, (*fields, ("Content-Encoding", "gzip")), gzip.compress(body, 1, mtime=0))
        return Answer(200, fields, body)

    def _revision(self, node: Node) -> int:
        spec = self.spec
        return spec.revision if spec.changing and self.graph.chance("changing", *node) < spec.changing else 0

    def _validators(self, node: Node) -> tuple[str, int]:
        revision, draw = self._revision(node), self.graph.draw("validators", *node)
        weak = "W/" if self.spec.gzip else ""  # two encodings must not share a strong tag: RFC 9110 8.8.3.3
        return f'{weak}"{draw:016x}-{revision}"', _BORN + draw % 10_000_000 + revision * 86_400

    def _body(self, node: Node) -> bytes:
        graph, spec = self.graph, self.spec
        name, draw = site_name(graph.draw("name", node.host, 0), node.host), graph.draw("text", *node)
        title = f"{topic(draw)} · {name}" if node.page else name
        hrefs = [href.replace("&", "&amp;") for href in graph.links(node)]
        items = "".join([f'<li><a href="{href}">{href}</a></li>\n' for href in hrefs])
        revision = self._revision(node)
        head = (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
            f'<meta name="description" content="Page {node.page} of {name}"></head>\n'
            f"<body><h1>{title}</h1>\n<p>Page {node.page}{f', revision {revision}' if revision else ''}.</p>\n"
            f"<ul>\n{items}</ul>\n"
        ).encode()
        size = spec.size * (1 - spec.spread + 2 * spec.spread * graph.chance("size", *node))
        count = max(0, round((size - len(head)) / BLOCK))
        return head + self._prose.paragraphs(count, draw >> 20) + b"</body></html>\n"


def _number(text: str) -> int:
    """-1 unless it is written the one way a link writes it: other spellings are other, missing pages."""
    if not (text.isascii() and text.isdecimal()) or len(text) > 9 or (text[0] == "0" and text != "0"):
        return -1
    return int(text)


def _unchanged(headers: Mapping[str, str], etag: str, modified: int) -> bool:
    """RFC 9110 13.2.2: If-Modified-Since counts only where there is no If-None-Match."""
    match = headers.get("if-none-match")
    if match is not None:
        tags = {tag.strip().removeprefix("W/") for tag in match.split(",")}
        return match.strip() == "*" or etag.removeprefix("W/") in tags
    since = headers.get("if-modified-since")
    if since is None:
        return False
    try:
        return parsedate_to_datetime(since).timestamp() >= modified
    except ValueError:
        return False
