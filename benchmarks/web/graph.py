"""Which pages there are, of what kind, and what each links to. Pure arithmetic on hashes: nothing is stored.

The pages of a host are a tree in heap order: page k leads to k * children + 1 and on; front pages form such a tree over
the hosts. All other links of a page go where one of its ancestors leads as well. So a crawler that loses one page's
links loses the pages below it and cannot find them again some other way, and the depth of a page does not depend on
the order in which a crawl comes upon it.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeVar

import xxhash

from benchmarks.web.spec import WebSpec

HOST_CHILDREN = 8  # 4,000 hosts within four links of the first: a crawl's depth limit stays far away

Kind = Literal[
    "plain", "missing", "broken", "flaky", "busy", "inside", "across", "chain", "slash", "order", "twin"
]  # fmt: skip
RobotsKind = Literal["plain", "disallow", "delay", "missing", "down"]

T = TypeVar("T")


class Node(NamedTuple):
    host: int
    page: int


class Graph:
    def __init__(self, spec: WebSpec) -> None:
        self.spec = spec
        self.addresses = [spec.address(host) for host in range(spec.hosts)]
        self._origins = [f"{'https' if spec.tls else 'http'}://{address}:{spec.port}" for address in self.addresses]
        errors, redirects, robots = spec.errors, spec.redirects, spec.robots
        kinds: list[tuple[Kind, float]] = [
            ("missing", errors.missing),
            ("broken", errors.broken),
            ("flaky", errors.flaky),
            ("busy", errors.busy),
            ("inside", redirects.inside),
            ("across", redirects.across),
            ("chain", redirects.chain),
            ("slash", redirects.slash),
            ("order", redirects.order),
            ("twin", spec.twins),
        ]
        robots_kinds: list[tuple[RobotsKind, float]] = [
            ("disallow", robots.disallow),
            ("delay", robots.delay),
            ("missing", robots.missing),
            ("down", robots.down),
        ]
        self._kinds, self._robots = _steps(kinds), _steps(robots_kinds)

    # ---- chance ----------------------------------------------------------------------------------

    def draw(self, what: str, host: int, page: int) -> int:
        """64 bits that depend on nothing else."""
        return xxhash.xxh3_64_intdigest(f"{what}/{host}/{page}".encode(), seed=self.spec.seed)

    def chance(self, what: str, host: int, page: int) -> float:
        return self.draw(what, host, page) / 2**64

    def kind(self, node: Node) -> Kind:
        if not self._kinds or node.page == 0:
            return "plain"
        chance = self.chance("kind", *node)
        kind: Kind = next((kind for below, kind in self._kinds if chance < below), "plain")
        return "plain" if kind in ("missing", "broken") and self.leads_on(node) else kind

    def robots_kind(self, host: int) -> RobotsKind:
        if not self._robots or host == 0:
            return "plain"
        chance = self.chance("robots", host, 0)
        kind: RobotsKind = next((kind for below, kind in self._robots if chance < below), "plain")
        return "plain" if kind == "down" and self.hosts_below(host) else kind

    # ---- the tree --------------------------------------------------------------------------------

    def leads_on(self, node: Node) -> bool:
        return node.page * self.spec.children + 1 < self.spec.pages_of(node.host)

    def down(self, node: Node) -> list[Node]:
        """The pages that only `node` leads to."""
        first = node.page * self.spec.children + 1
        last = min(first + self.spec.children, self.spec.pages_of(node.host))
        hosts = self.spec.hosts
        return [Node((node.host + self._shift(page)) % hosts, page) for page in range(first, last)]

    def up(self, node: Node) -> Node:
        return Node((node.host - self._shift(node.page)) % self.spec.hosts, (node.page - 1) // self.spec.children)

    def _shift(self, page: int) -> int:
        """How many hosts on the children of this number live: the same for all hosts, so each still has one parent."""
        spec = self.spec
        if not spec.foreign or page >= spec.pages or self.chance("foreign", 0, page) >= spec.foreign:
            return 0
        return self.draw("shift", 0, page) % spec.hosts

    def hosts_below(self, host: int) -> range:
        """Those whose front pages only this one's leads to."""
        first = host * HOST_CHILDREN + 1
        return range(first, min(first + HOST_CHILDREN, self.spec.hosts)) if self.spec.cross else range(0)

    def known(self, node: Node, number: int) -> Node:
        """Some page that an ancestor of `node` leads to, or `node` itself."""
        if node.page == 0:
            return node
        draw = self.draw(f"known{number}", *node)
        for _ in range(draw % 4):
            above = self.up(node)
            if above.page == 0:
                break
            node = above
        beside = self.down(self.up(node))
        return beside[(draw >> 8) % len(beside)]

    def known_host(self, node: Node, number: int) -> int:
        """Some host that the front page above `node`, or the front page of a host above that, leads to."""
        draw = self.draw(f"host{number}", *node)
        while node.page and self.spec.foreign:
            node = self.up(node)
        host = node.host
        for _ in range(draw % 3):
            host = max(0, (host - 1) // HOST_CHILDREN)
        if not self.hosts_below(host):
            host = max(0, (host - 1) // HOST_CHILDREN)
        below = self.hosts_below(host)
        return below[(draw >> 8) % len(below)]

    # ---- links -----------------------------------------------------------------------------------

    def url(self, host: int, path: str = "/") -> str:
        return self._origins[host] + path

    def path(self, node: Node) -> str:
        """Where the page itself is."""
        if node.page == 0:
            return "/"
        kind = self.kind(node) if self._kinds else "plain"
        if kind == "slash":
            return f"/p/{node.page}/"
        return f"/p/{node.page}?a=1&b=2" if kind == "order" else f"/p/{node.page}"

    def hops(self, node: Node) -> int:
        """Redirects on the same host that lead to it, under /r/."""
        match self.kind(node):
            case "inside":
                return 1
            case "chain":
                return 2 + self.draw("hops", *node) % 2
            case _:
                return 0

    def door(self, node: Node) -> int:
        """The host that redirects to it."""
        hosts = self.spec.hosts
        return (node.host + 1 + self.draw("door", *node) % max(1, hosts - 1)) % hosts

    def links(self, node: Node) -> list[str]:
        """As written in the page: a path on the same host, an absolute URL to any other."""
        return list(dict.fromkeys(self._links(node)))

    def _links(self, node: Node) -> Iterator[str]:
        spec, host = self.spec, node.host
        for child in self.down(node):
            yield from self._ways_to(child, host)
        for number in range(spec.extra):
            beside = self.known(node, number)
            yield self._href(host, beside.host, self.path(beside))
            if spec.twins and self.kind(beside) == "twin":
                yield self._href(host, beside.host, f"{self.path(beside)}?utm_medium=page{node.page}")
        if spec.cross:
            yield from self._to_hosts(node)
        if spec.files and self.chance("file", *node) < spec.files:
            yield f"/file/{node.page}"
            yield f"mailto:miller@{self.addresses[host]}"
        if self.robots_kind(host) == "disallow":
            yield f"/private/{'' if node.page % 3 else 'open/'}{node.page}"

    def _ways_to(self, node: Node, host: int) -> Iterator[str]:
        """How the parent, on `host`, links to it."""
        path = self.path(node)
        match self.kind(node):
            case "inside" | "chain":
                yield self._href(host, node.host, f"/r/{node.page}/{self.hops(node)}")
            case "across":
                yield self._href(host, self.door(node), f"/go/{node.host}/{node.page}")
            case "slash":
                yield self._href(host, node.host, path.rstrip("/"))
            case "order":
                yield self._href(host, node.host, f"/p/{node.page}?b=2&a=1")
            case "twin":
                yield self._href(host, node.host, path)
                yield self._href(host, node.host, f"{path}?utm_source=news&utm_campaign=spring")
                yield self._href(host, node.host, f"{path}#below")
            case "plain" | "missing" | "broken" | "flaky" | "busy":
                yield self._href(host, node.host, path)

    def _to_hosts(self, node: Node) -> Iterator[str]:
        if node.page == 0:
            yield from (self.url(host) for host in self.hosts_below(node.host))
        if self.spec.hosts > 1:
            yield from (self.url(self.known_host(node, number)) for number in range(self.spec.cross))

    def _href(self, here: int, there: int, path: str) -> str:
        return path if here == there else self._origins[there] + path


def _steps(shares: list[tuple[T, float]]) -> list[tuple[float, T]]:
    """Kinds with the chance below which each is drawn; empty if none ever is."""
    return [(sum(share for _, share in shares[: at + 1]), kind) for at, (kind, share) in enumerate(shares) if share]
