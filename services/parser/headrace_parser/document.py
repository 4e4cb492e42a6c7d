"""Bytes → a tree, and a tree → its visible text. Whatever the bytes, neither raises for what is in them."""

import re
from typing import Any, NamedTuple

from selectolax.lexbor import LexborDocumentOptions, LexborHTMLParser, SelectolaxError

from headrace_parser.encoding import utf8_of
from headrace_parser.nesting import bounded

_HIDDEN = "script style template noscript head title iframe object -comment"
_TELLING = "a area iframe frame meta link title base"
_BLOCKS = (
    "address article aside blockquote body br button caption center dd details dialog dir div dl dt fieldset figcaption"
    " figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr input legend li main menu nav ol option p pre search"
    " section select summary table tbody td textarea tfoot th thead tr ul"
)
HIDDEN, BLOCKS = frozenset(_HIDDEN.split()), frozenset(_BLOCKS.split())
TELLING = frozenset(_TELLING.split())
"""Elements that say something beside their text: where they link to, or what the page is."""

_SNIFFED = 1024  # bytes looked at to tell text from a picture served as text/html
_BINARY = bytes({*range(0x09), 0x0B, *range(0x0E, 0x1B), *range(0x1C, 0x20)})  # WHATWG: binary data bytes
_BINARY_SHARE = 0.1  # a stray control byte is common in real pages; a tenth of them is not text

_OPTIONS = LexborDocumentOptions.WO_EVENTS.value  # nothing listens
_SPACES = "\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
_SPACES += "".join(map(chr, range(0x2000, 0x200B)))
"""What Python's split() takes for white space, but for the space itself."""


# A tree is made of any bytes, a comment alone or nothing that is one: of a page at least one tag was written.
_START = re.compile(rb"<!--.*?(?:-->|\Z)|<([a-zA-Z])", re.DOTALL)


class Document(NamedTuple):
    root: Any
    """The lexbor node of `<html>`, or None where there is no document in the bytes."""
    encoding: str
    whole: bool
    """False where nesting was cut short: what is there is right, the rest is missing."""


class Elements(NamedTuple):
    """Of one tree, in page order."""

    telling: list[tuple[str, Any]]
    """(name, node)"""
    hidden: list[Any]
    inline: list[Any]


def read(body: bytes, charset: str = "") -> Document:
    text, encoding = utf8_of(body, charset)
    if not text.strip() or _is_binary(text):
        return Document(None, encoding, False)
    kept = bounded(text)
    try:
        root = LexborHTMLParser(kept, options=_OPTIONS).root
    except SelectolaxError:  # there is HTML in any bytes: only memory can be missing
        raise MemoryError from None
    if root is None or (_is_empty(root) and not any(tag[1] for tag in _START.finditer(text))):
        return Document(None, encoding, False)
    return Document(root, encoding, len(kept) == len(text))


def elements(root: Any) -> Elements:
    """One pass for all who ask: making a node and its name is most of the work."""
    telling: list[tuple[str, Any]] = []
    hidden: list[Any] = []
    inline: list[Any] = []
    nodes = root.traverse()
    next(nodes)  # the root itself
    for node in nodes:
        tag = node.tag
        if tag in BLOCKS:
            continue
        if tag in TELLING:
            telling.append((tag, node))
        (hidden if tag in HIDDEN else inline).append(node)
    return Elements(telling, hidden, inline)


def visible_text(root: Any, found: Elements | None = None) -> str:
    """What a reader sees, words of different blocks apart, runs of white space folded into one space. Takes the tree
    apart: without what is hidden and without inline elements, each text left is that of one block."""
    _, hidden, inline = found or elements(root)
    for node in hidden:
        node.decompose(recursive=False)
    for node in inline:  # outer ones first: each child moves once
        node.unwrap(delete_empty=True)
    root.merge_text_nodes()
    return _folded(root.text(separator=" ", strip=True, skip_empty=True))


def folded(text: str | None) -> str:
    """White space folded, and without the NULs that PostgreSQL refuses in text."""
    return " ".join(text.replace("\0", "").split()) if text else ""


def _folded(text: str) -> str:
    """The same for a long text, in a third of the time: where a run of spaces is rare, words need not be parted."""
    if "\0" in text:
        text = text.replace("\0", "")
    for space in _SPACES:
        if space in text:
            text = text.replace(space, " ")
    if "  " in text:
        text = " ".join([kept for part in text.split("  ") if (kept := part.strip(" "))])
    return text.strip(" ")


def _is_binary(text: bytes) -> bool:
    head = text[:_SNIFFED]
    return len(head) - len(head.translate(None, _BINARY)) > _BINARY_SHARE * len(head)


def _is_empty(root: Any) -> bool:
    return all(child.first_child is None for child in root.iter(include_text=True))
