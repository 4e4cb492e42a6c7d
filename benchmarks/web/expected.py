"""What a perfect crawl requests and what it gets, by walking the model: no network, and none of the crawler's own code.

Scope is everything, a redirect is a link at the same depth, robots.txt is obeyed, and what passes (a first 500) has
passed. Pages are told apart as the crawler's defaults do: tracking parameters dropped, the others sorted.
"""

import hashlib
from collections import deque
from collections.abc import Iterable
from urllib.parse import urlsplit

from msgspec import Struct

from benchmarks.web.site import Answer, Site


class Expected(Struct):
    """One URL; of several spellings of one page, the one that answers finally."""

    url: str
    status: int
    sha256: str
    """Of the body, decompressed; empty unless the status is 200."""
    size: int
    content_type: str
    depth: int
    """Fewest links from a seed."""
    location: str
    """Where a redirect leads, absolute."""
    spellings: list[str]
    """All that links and redirects have: a crawl may request any of them, as it comes upon them."""


class Walk(Struct):
    requested: list[Expected]
    refused: dict[str, str]
    """Found, but never to be requested: URL → `robots` or `robots_unavailable`."""


def expected(site: Site, seeds: Iterable[str], *, slash_is_same: bool = False) -> list[Expected]:
    """`slash_is_same`: for a crawl that drops trailing slashes when it compares URLs."""
    return walk(site, seeds, slash_is_same=slash_is_same).requested


def walk(site: Site, seeds: Iterable[str], *, slash_is_same: bool = False) -> Walk:
    found: dict[str, Expected] = {}
    refused: dict[str, str] = {}
    todo = deque((seed, 0) for seed in seeds)
    while todo:
        url, depth = todo.popleft()
        key = identity(url, slash_is_same)
        known = found.get(key)
        if known is not None:
            if url not in known.spellings:
                known.spellings.append(url)
            continue
        address, target = split(url)
        if address not in site.hosts:
            raise ValueError(f"{url} is not of this web")
        if not site.allowed(address, target):
            refused[url] = "robots" if target.startswith("/private/") else "robots_unavailable"
            continue
        page = _visit(site, url, depth)
        found[key] = page
        while page.location and identity(page.location, slash_is_same) == key:
            page = found[key] = _visit(site, page.location, depth, page.spellings)
        if page.location:
            todo.appendleft((page.location, depth))  # at the same depth, so ahead of all that is deeper
        elif page.status == 200:
            todo.extend((link, depth + 1) for link in site.links(*split(page.url)))
    return Walk(list(found.values()), refused)


def _visit(site: Site, url: str, depth: int, spellings: list[str] | None = None) -> Expected:
    address, target = split(url)
    answer = site.answer(address, target, {}, earlier=1)
    headers = dict(answer.headers)
    location = headers.get("Location", "")
    if location.startswith("/"):
        location = url[: len(url) - len(target)] + location
    ok = answer.status == 200
    return Expected(
        url=url,
        status=answer.status,
        sha256=_sha256(answer) if ok else "",
        size=len(answer.body) if ok else 0,
        content_type=headers.get("Content-Type", "").partition(";")[0],
        depth=depth,
        location=location,
        spellings=[*(spellings or ()), url],
    )


def _sha256(answer: Answer) -> str:
    return hashlib.sha256(answer.body).hexdigest()


def split(url: str) -> tuple[str, str]:
    """Address and target, as a request for `url` has them."""
    parts = urlsplit(url)
    return parts.hostname or "", (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


def identity(url: str, slash_is_same: bool = False) -> str:
    """The same for two spellings of one page."""
    path, _, query = url.partition("#")[0].partition("?")
    if slash_is_same and path.count("/") > 3:
        path = path.rstrip("/")
    pairs = sorted(pair for pair in query.split("&") if pair and not pair.startswith("utm_"))
    return f"{path}?{'&'.join(pairs)}" if pairs else path
