"""A stored page as simple Markdown, for reading in a terminal: headings, paragraphs, lists, quotes, links, code.

What comes out is meant for eyes. Text that looks like Markdown or HTML is escaped, and only web links stay links, so
that showing it elsewhere runs nothing.
"""

import re
from typing import Any

from headrace_parser import document
from headrace_schemas.urls import BadUrl, as_found

_HIDDEN = document.HIDDEN | {"svg"}
_HEADINGS = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_INLINE = {"b": "**", "strong": "**", "i": "*", "em": "*", "code": "`", "kbd": "`", "samp": "`", "tt": "`"}
_BLOCKS = (
    "address article aside blockquote body caption center dd details dialog div dl dt fieldset figcaption figure footer"
    " form header hgroup html legend li main menu nav ol p pre section summary table tbody tfoot thead tr ul"
)
_SPECIAL = re.compile(r"([\\`*_\[\]<>])")
_MAX_INDENT = 8  # levels; deeper lists and quotes exist only in traps


def markdown_of(body: bytes, charset: str = "", base_url: str = "") -> str:
    root = document.read(body, charset).root
    if root is None:
        return ""
    writer = _Writer(base_url)
    # a stack, not recursion: real pages nest deeper than Python's
    open_elements = [(root, root.iter(include_text=True))]
    while open_elements:
        element, children = open_elements[-1]
        child = next(children, None)
        if child is None:
            writer.end(element)
            open_elements.pop()
        elif child.tag == "-text":
            writer.text(child.text_content)
        elif child.tag not in _HIDDEN:
            writer.start(child)
            open_elements.append((child, child.iter(include_text=True)))
    return writer.finished()


class _Writer:
    """Gathers one block of text at a time; a block ends where the next one starts."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._apart = frozenset(_BLOCKS.split())
        self._blocks: list[str] = []
        self._inline: list[str] = []
        self._prefix = ""
        self._lists: list[int] = []
        """Per open list the number of its next item; 0 for bullets."""
        self._quotes = 0
        self._verbatim = 0
        self._links: list[tuple[str, int]] = []
        """Per open link its target, empty if it is none, and where its text starts."""

    def start(self, element: Any) -> None:
        tag = element.tag
        if tag in _HEADINGS:
            self._break()
            self._prefix = _HEADINGS[tag]
        elif tag in self._apart:
            self._break()
            self._open(tag, element)
        elif tag == "a":
            self._links.append((self._target(element.attrs.get("href")), len(self._inline)))
        elif tag == "br":
            self._inline.append("\n")
        elif tag == "hr":
            self._break()
            self._blocks.append("---")
        elif tag in ("td", "th"):
            self._inline.append(" | ")
        elif tag == "img":
            self.text(element.attrs.get("alt"))
        else:
            self._mark(tag)

    def end(self, element: Any) -> None:
        tag = element.tag
        if tag in _HEADINGS:
            self._break()
        elif tag in self._apart:
            self._break()
            self._close(tag)
        elif tag == "a":
            self._link(*self._links.pop())
        else:
            self._mark(tag)

    def text(self, text: str | None) -> None:
        if text:
            self._inline.append(text if self._verbatim else _SPECIAL.sub(r"\\\1", re.sub(r"\s+", " ", text)))

    def finished(self) -> str:
        self._break()
        return "\n\n".join(self._blocks)

    def _open(self, tag: str, element: Any) -> None:
        if tag in ("ul", "menu"):
            self._lists.append(0)
        elif tag == "ol":
            self._lists.append(1)
        elif tag == "li":
            self._prefix = self._bullet()
        elif tag == "blockquote":
            self._quotes += 1
        elif tag == "pre":
            self._verbatim += 1

    def _close(self, tag: str) -> None:
        if tag in ("ul", "menu", "ol"):
            self._lists.pop()
        elif tag == "blockquote":
            self._quotes -= 1
        elif tag == "pre":
            self._verbatim -= 1

    def _bullet(self) -> str:
        if not self._lists or not self._lists[-1]:
            return "- "
        self._lists[-1] += 1
        return f"{self._lists[-1] - 1}. "

    def _mark(self, tag: str) -> None:
        if tag in _INLINE and not self._verbatim:
            self._inline.append(_INLINE[tag])

    def _target(self, href: str | None) -> str:
        if not href or href.startswith("#"):
            return ""
        try:
            return as_found(href, self._base).replace("(", "%28").replace(")", "%29")
        except (BadUrl, ValueError):
            return ""

    def _link(self, target: str, start: int) -> None:
        label = " ".join("".join(self._inline[start:]).split())
        if target and label and not self._verbatim:
            self._inline[start:] = [f"[{label}]({target})"]

    def _break(self) -> None:
        """Ends the block under way."""
        text = "".join(self._inline)
        self._inline.clear()
        self._links = [("", 0) for _ in self._links]  # a link around blocks is left out: its text stays
        if self._verbatim:
            block = "```\n" + text.strip("\n").replace("```", "'''") + "\n```" if text.strip() else ""
        else:
            lines = (" ".join(line.split()).strip("| ") for line in text.split("\n"))
            block = "\n".join(line for line in lines if line)
        if block.strip("*`\n "):
            indent = "  " * min(max(0, len(self._lists) - 1), _MAX_INDENT) + "> " * min(self._quotes, _MAX_INDENT)
            self._blocks.append("\n".join(indent + line for line in (self._prefix + block).split("\n")))
            self._prefix = ""
