"""The model alone: deterministic, exact, and made so that lost links show."""

import collections

import msgspec
import pytest

from benchmarks.web.expected import expected, identity, walk
from benchmarks.web.graph import HOST_CHILDREN, Graph, Node
from benchmarks.web.site import Site
from benchmarks.web.spec import Errors, Redirects, RobotsKinds, WebSpec, shares

EVERYTHING = WebSpec(
    port=8000,
    hosts=12,
    pages=60,
    foreign=0.3,
    errors=Errors(missing=0.05, flaky=0.05, busy=0.05, broken=0.05),
    redirects=Redirects(inside=0.05, across=0.05, chain=0.05, slash=0.05, order=0.05),
    robots=RobotsKinds(disallow=0.3, delay=0.2, missing=0.2),
    validators=True,
    twins=0.1,
    files=0.2,
    hot_hosts=1,
    hot_pages=200,
)


def front(site: Site, host: int = 0) -> str:
    return site.graph.url(host)


def test_two_sites_of_one_spec_answer_with_the_same_bytes() -> None:
    one, other = Site(EVERYTHING), Site(EVERYTHING)
    for page in expected(one, [front(one)]):
        address, target = page.url.partition("//")[2].split(":")[0], "/" + page.url.split("/", 3)[3]
        assert one.answer(address, target, {}) == other.answer(address, target, {})


def test_another_seed_gives_other_pages() -> None:
    one, other = Site(EVERYTHING), Site(msgspec.structs.replace(EVERYTHING, seed=2))
    assert one.answer("127.10.0.1", "/", {}).body != other.answer("127.10.0.1", "/", {}).body


def test_the_plain_web_is_all_pages_of_all_hosts_and_all_answer_200() -> None:
    site = Site(WebSpec(port=8000, hosts=30, pages=25))
    found = expected(site, [front(site)])
    assert len(found) == 30 * 25
    assert {page.status for page in found} == {200}
    assert len({page.sha256 for page in found}) == len(found)


def test_hosts_without_cross_links_are_islands() -> None:
    site = Site(WebSpec(port=8000, hosts=5, pages=20, cross=0))
    assert len(expected(site, [front(site)])) == 20
    assert len(expected(site, [front(site, host) for host in range(5)])) == 100


@pytest.mark.parametrize("foreign", [0.0, 0.4])
@pytest.mark.parametrize("lost", [Node(3, 2), Node(1, 0), Node(4, 0)])
def test_a_page_whose_parent_lost_its_links_is_found_by_no_other_way(foreign: float, lost: Node) -> None:
    spec = WebSpec(port=8000, hosts=21, pages=60, foreign=foreign)
    graph = Graph(spec)
    pages = {graph.url(node.host, graph.path(node)): node for node in _all(spec)}
    seen, todo = {graph.url(0)}, [graph.url(0)]
    while todo:
        node = pages[todo.pop()]
        hrefs = [] if node == lost else graph.links(node)
        found = {graph.url(node.host, href) if href[0] == "/" else href for href in hrefs}
        todo += found - seen
        seen |= found
    assert {pages[url] for url in pages.keys() - seen} == set(_below(graph, lost))


@pytest.mark.parametrize("foreign", [0.0, 0.4])
def test_every_link_goes_where_the_page_or_one_above_it_leads(foreign: float) -> None:
    spec = WebSpec(port=8000, hosts=80, pages=30, foreign=foreign, extra=6, cross=6)
    graph = Graph(spec)
    pages = {graph.url(node.host, graph.path(node)): node for node in _all(spec)}
    for node in _all(spec):
        above = _above(graph, node)
        for href in graph.links(node):
            target = pages[graph.url(node.host, href) if href[0] == "/" else href]
            assert target in above or _above(graph, target)[1] in above


def _above(graph: Graph, node: Node) -> list[Node]:
    """Itself first, then what leads to it, up to the first front page."""
    path = [node]
    while path[-1] != Node(0, 0):
        last = path[-1]
        path.append(graph.up(last) if last.page else Node((last.host - 1) // HOST_CHILDREN, 0))
    return path


def _all(spec: WebSpec) -> list[Node]:
    return [Node(host, page) for host in range(spec.hosts) for page in range(spec.pages_of(host))]


def _below(graph: Graph, node: Node) -> list[Node]:
    hosts = graph.hosts_below(node.host) if node.page == 0 else ()
    down = [*graph.down(node), *(Node(host, 0) for host in hosts)]
    return down + [deeper for child in down for deeper in _below(graph, child)]


def test_up_and_down_agree_on_every_page() -> None:
    graph = Graph(EVERYTHING)
    for node in _all(EVERYTHING):
        for child in graph.down(node):
            assert graph.up(child) == node


def test_every_page_of_a_web_with_redirects_and_flaky_pages_is_reached() -> None:
    spec = msgspec.structs.replace(EVERYTHING, robots=RobotsKinds(), files=0.0)
    site = Site(spec)
    paths = {site.graph.url(node.host, site.graph.path(node)) for node in _all(spec)}
    found = {page.url: page for page in expected(site, [front(site)])}
    assert paths <= found.keys()
    assert {found[url].status for url in paths} == {200, 404, 500}
    redirects = [page for page in found.values() if 300 <= page.status < 400]
    assert found.keys() - paths == {page.url for page in redirects}
    assert {page.status for page in redirects} == {301, 302, 303, 307, 308}


def test_errors_that_stay_have_no_page_behind_them() -> None:
    graph = Graph(EVERYTHING)
    kinds = collections.Counter(graph.kind(node) for node in _all(EVERYTHING))
    assert len(kinds) == 11  # every kind occurs
    assert not any(graph.leads_on(node) for node in _all(EVERYTHING) if graph.kind(node) in ("missing", "broken"))


def test_what_robots_forbids_is_found_and_not_requested() -> None:
    site = Site(msgspec.structs.replace(EVERYTHING, robots=RobotsKinds(disallow=0.4, down=0.2)))
    found = walk(site, [front(site)])
    assert set(found.refused.values()) == {"robots", "robots_unavailable"}
    requested = [page.url for page in found.requested if "/private/" in page.url]
    assert requested
    assert all("/private/open/" in url for url in requested)


def test_a_page_in_several_spellings_is_expected_once() -> None:
    site = Site(EVERYTHING)
    found = expected(site, [front(site)])
    assert len({identity(page.url) for page in found}) == len(found)
    reordered = [page for page in found if any("b=2&a=1" in url for url in page.spellings)]
    assert reordered
    assert all(page.status == 200 and page.url.endswith("?a=1&b=2") for page in reordered)
    assert any("utm_source" in url for page in found for url in page.spellings)


def test_where_slashes_do_not_count_a_slash_redirect_is_one_page() -> None:
    site = Site(WebSpec(port=8000, hosts=2, pages=30, redirects=Redirects(slash=0.5)))
    assert len(expected(site, [front(site)], slash_is_same=True)) == 60
    assert len(expected(site, [front(site)])) > 60


def test_sizes_lie_around_the_one_asked_for() -> None:
    site = Site(WebSpec(port=8000, hosts=20, pages=40, size=5_000, spread=0.4))
    sizes = [page.size for page in expected(site, [front(site)])]
    assert 4_800 < sum(sizes) / len(sizes) < 5_200
    assert min(sizes) > 2_700
    assert max(sizes) < 7_300


def test_a_large_page_and_a_tiny_one_are_whole() -> None:
    for size in (1, 500_000):
        body = Site(WebSpec(port=8000, size=size, spread=0.0)).answer("127.10.0.1", "/", {}).body
        assert body.endswith(b"</body></html>\n")
        assert size < 10 or abs(len(body) - size) < 300


def test_thousands_of_hosts_have_addresses_of_their_own_and_are_near() -> None:
    site = Site(WebSpec(port=8000, hosts=4_000, pages=2, extra=0, cross=1, size=300))
    assert len(site.hosts) == 4_000
    assert all(address.startswith("127.") for address in site.hosts)
    found = expected(site, [front(site)])
    assert len(found) == 8_000
    assert max(page.depth for page in found) <= 6


def test_no_address_outside_loopback_is_ever_given() -> None:
    with pytest.raises(ValueError, match="addresses"):
        WebSpec(base=255, hosts=100_000)
    assert WebSpec(base=255, hosts=60_000).address(59_999) == "127.255.239.250"


def test_shares_that_add_up_to_more_than_all_are_refused() -> None:
    with pytest.raises(ValueError, match="errors"):
        WebSpec(errors=Errors(missing=0.6, flaky=0.6))
    with pytest.raises(ValueError, match="all pages"):
        WebSpec(errors=Errors(missing=0.6), redirects=Redirects(chain=0.6))


def test_shares_are_read_as_one_number_or_by_kind() -> None:
    assert shares("0.3", ("a", "b", "c")) == pytest.approx({"a": 0.1, "b": 0.1, "c": 0.1})
    assert shares("a=0.2, c=0.1", ("a", "b", "c")) == {"a": 0.2, "c": 0.1}


def test_paths_nobody_links_to_are_missing() -> None:
    site = Site(EVERYTHING)
    odd = [
        "/p/007",
        "/p/+1",
        "/p/-1",
        "/p/0",
        "/p/x",
        "/p/٣",
        "/p/99999999999",
        "/r/1/9",
        "/go/1/1/1",
        "//",
        "/p//",
        "/q",
    ]
    assert [site.answer("127.10.0.2", path, {}).status for path in odd] == [404] * len(odd)
    assert site.answer("127.99.0.1", "/", {}).status == 404
