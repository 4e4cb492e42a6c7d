"""A fetched page → what it says: a pure function, so that it can be run again over everything ever stored."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

from headrace_parser import directives, document
from headrace_parser.directives import Directives
from headrace_parser.document import folded
from headrace_schemas.messages import FetchedPage, ParsedPage
from headrace_schemas.texts import Packer
from headrace_schemas.urls import BadUrl, Canonicaliser, Found, as_found

MAX_LINE = 1_000  # characters of a title or a description
MAX_LANG = 35  # characters: what RFC 5646 (4.4.1) asks room for
MAX_HREF = 10_000  # characters: more is data, and not worth a look

_HTML = frozenset(("", "text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml"))
_LINKING = {"a": "href", "area": "href", "iframe": "src", "frame": "src"}


class ParseLimits(Struct, frozen=True, gc=False, array_like=True):
    max_links: int = 1_000
    """Links taken of one page."""
    max_text: int = 100_000
    """Characters of text kept of one page."""
    max_bytes: int = 10 * 1024 * 1024
    """Bytes of a body after decompression."""
    agent: str = "headrace"
    """Whom an addressed X-Robots-Tag, or a `<meta>` by that name, must mean."""


class Parsed(Struct, frozen=True, gc=False):
    """`ParsedPage` says what the fields mean."""

    verdict: str
    title: str = ""
    description: str = ""
    text: str = ""
    lang: str = ""
    encoding: str = ""
    text_sha256: str = ""
    """Of the whole visible text, of which `text` may be only the beginning: a change at the end is a change."""
    outlinks: tuple[str, ...] = ()
    canonical_url: str = ""
    nofollow: bool = False
    noindex: bool = False
    items: tuple[bytes, ...] = ()
    links: tuple[Found, ...] = ()
    """What the crawl may go on with: `outlinks`, one of each dedupe key, or nothing if the page says nofollow."""
    rejected: dict[str, int] = {}
    """Links that nobody could fetch, by reason."""

    def message(self, page: FetchedPage, at: float, packer: Packer | None = None) -> ParsedPage:
        packed = packer.packed(self.text) if packer is not None else b""
        return ParsedPage(
            page.fetch_id,
            page.url,
            page.key,
            self.verdict,
            title=self.title,
            description=self.description,
            text="" if packed else self.text,
            lang=self.lang,
            encoding=self.encoding,
            text_sha256=self.text_sha256,
            outlinks=self.outlinks,
            canonical_url=self.canonical_url,
            nofollow=self.nofollow,
            noindex=self.noindex,
            parsed_at=at,
            items=self.items,
            packed_text=packed,
        )


def parse(page: FetchedPage, body: bytes, limits: ParseLimits, canonicaliser: Canonicaliser) -> Parsed:
    """`body` is that of `page`, decompressed. Raises nothing for what is in it but MemoryError."""
    if page.content_type not in _HTML:
        return Parsed("not_html")
    root, encoding, whole = document.read(body, page.charset)
    if root is None:
        return Parsed("unparsable", encoding=encoding)
    elements = document.elements(root)
    told = _gathered(elements.telling, directives.from_headers(page.headers, limits.agent), limits.agent.lower())
    base = _base(told.base, page.url)
    found, rejected = _resolved(told.hrefs, base, limits.max_links, canonicaliser)
    text = document.visible_text(root, elements)
    return Parsed(
        verdict="ok" if whole else "unparsable",
        title=folded(told.title)[:MAX_LINE],
        description=folded(told.description or told.og_description)[:MAX_LINE],
        text=text[: limits.max_text],
        lang=folded(root.attrs.get("lang") or root.attrs.get("xml:lang"))[:MAX_LANG],
        encoding=encoding,
        text_sha256=hashlib.sha256(text.encode()).hexdigest(),
        outlinks=tuple(link.url for link in found),
        canonical_url=_canonical(told.canonical, base),
        nofollow=told.robots.nofollow,
        noindex=told.robots.noindex,
        links=() if told.robots.nofollow else _one_of_each(found),
        rejected={} if told.robots.nofollow else rejected,
    )


def text_of(body: bytes, charset: str = "") -> str:
    """The visible text of a stored body."""
    root = document.read(body, charset).root
    return "" if root is None else document.visible_text(root)


@dataclass(slots=True)
class _Told:
    """What the elements of one page say, unresolved."""

    robots: Directives
    title: str | None = None
    description: str = ""
    og_description: str = ""
    canonical: str = ""
    base: str = ""
    hrefs: dict[str, None] = field(default_factory=dict)
    """In page order, without repeats: a menu repeats its links, and resolving is the dear part."""


def _gathered(elements: Iterable[tuple[str, Any]], robots: Directives, agent: str) -> _Told:
    """Links are resolved afterwards, since <base> may come late."""
    told = _Told(robots)
    hrefs = told.hrefs
    for tag, element in elements:
        attribute = _LINKING.get(tag)
        if attribute is not None:
            href = element.attrs.get(attribute)
            if href and href[0] != "#" and len(href) <= MAX_HREF:
                hrefs[href] = None
        elif tag == "meta":
            _meta(element.attrs, told, agent)
        elif tag == "link":
            if not told.canonical and "canonical" in (element.attrs.get("rel") or "").lower().split():
                told.canonical = element.attrs.get("href") or ""
        elif tag == "title":
            if told.title is None and not _is_of_a_picture(element):
                told.title = element.text()
        else:
            told.base = told.base or element.attrs.get("href") or ""
    return told


def _is_of_a_picture(title: Any) -> bool:
    element = title.parent
    while element is not None and element.tag != "svg":
        element = element.parent
    return element is not None


def _meta(attributes: Any, told: _Told, agent: str) -> None:
    name = (attributes.get("name") or attributes.get("property") or "").strip().lower()
    content = attributes.get("content")
    if not name or not content:
        return
    if name == "description":
        told.description = told.description or content
    elif name == "og:description":
        told.og_description = told.og_description or content
    elif name in ("robots", agent):
        told.robots = told.robots.and_also(content)


def _base(href: str, url: str) -> str:
    """What links are relative to; empty if the page's own URL is not one (then only absolute links resolve)."""
    for raw, base in ((href, url), (url, "")):
        try:
            if raw:
                return as_found(raw, base)
        except (BadUrl, ValueError):
            continue
    return ""


def _resolved(
    hrefs: Iterable[str], base: str, limit: int, canonicaliser: Canonicaliser
) -> tuple[list[Found], dict[str, int]]:
    """→ those that can be fetched, and how many cannot, by reason."""
    found: dict[str, Found] = {}
    rejected: dict[str, int] = {}
    for href in hrefs:
        try:
            link = canonicaliser.find(href, base)
        except BadUrl as error:
            rejected[error.reason] = rejected.get(error.reason, 0) + 1
            continue
        if link.url not in found:
            found[link.url] = link
            if len(found) >= limit:
                break
    return list(found.values()), rejected


def _one_of_each(found: Iterable[Found]) -> tuple[Found, ...]:
    by_key: dict[bytes, Found] = {}
    for link in found:
        by_key.setdefault(link.key, link)
    return tuple(by_key.values())


def _canonical(href: str, base: str) -> str:
    try:
        return as_found(href, base) if href else ""
    except BadUrl:
        return ""
