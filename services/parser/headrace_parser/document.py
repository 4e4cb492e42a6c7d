"""Bytes → a tree, and a tree → its visible text. Whatever the bytes, neither raises for what is in them."""

from functools import cache
from typing import Any, NamedTuple

from lxml import etree

from headrace_parser.encoding import utf8_of

_SNIFFED = 1024  # bytes looked at to tell text from a picture served as text/html
_BINARY = bytes({*range(0x09), 0x0B, *range(0x0E, 0x1B), *range(0x1C, 0x20)})  # WHATWG: binary data bytes
_BINARY_SHARE = 0.1  # a stray control byte is common in real pages; a tenth of them is not text

_HIDDEN = "script style template noscript head title iframe object"
_BLOCKS = (
    "address article aside blockquote body br button caption center dd details dialog dir div dl dt fieldset figcaption"
    " figure footer form h1 h2 h3 h4 h5 h6 header hgroup hr input legend li main menu nav ol option p pre search"
    " section select summary table tbody td textarea tfoot th thead tr ul"
)


# What Python's split() takes for white space and XML does not, and the NUL that `folded` takes out.
_ODD_SPACES = "\0\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B)))
_ODD_SPACES += "\u2028\u2029\u202f\u205f\u3000"


class Document(NamedTuple):
    root: Any
    """An lxml element, or None where there is no document in the bytes."""
    encoding: str
    whole: bool
    """False where the parser gave up half way (2,048 elements deep): what is there is right, the rest is missing."""


def read(body: bytes, charset: str = "") -> Document:
    text, encoding = utf8_of(body, charset)
    if not text.strip() or _is_binary(text):
        return Document(None, encoding, False)
    # A parser a page: a shared one keeps the error log, and so the memory, of the page before.
    # huge_tree: without it 256 nested elements or one 10 MB text lose everything that follows.
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, huge_tree=True)
    try:
        root = etree.fromstring(text, parser)
    except etree.LxmlError:
        if _out_of_memory(parser):
            raise MemoryError from None
        return Document(None, encoding, False)
    return Document(root, encoding, not _cut_short(parser))


def visible_text(root: Any) -> str:
    """What a reader sees, words of different blocks apart, runs of white space folded into one space."""
    try:
        text = str(_text_sheet()(root))
    except etree.XSLTApplyError:  # deeper than libxslt goes
        return folded(" ".join(root.itertext()))
    return folded(text) if any(space in text for space in _ODD_SPACES) else text


def folded(text: str | None) -> str:
    """White space folded, and without the NULs that PostgreSQL refuses in text."""
    return " ".join(text.replace("\0", "").split()) if text else ""


def _is_binary(text: bytes) -> bool:
    head = text[:_SNIFFED]
    return len(head) - len(head.translate(None, _BINARY)) > _BINARY_SHARE * len(head)


def _cut_short(parser: Any) -> bool:
    last = parser.error_log.last_error
    return (
        last is not None and last.level == etree.ErrorLevels.FATAL and last.type == etree.ErrorTypes.ERR_RESOURCE_LIMIT
    )


def _out_of_memory(parser: Any) -> bool:
    last = parser.error_log.last_error
    return last is not None and last.type == etree.ErrorTypes.ERR_NO_MEMORY


@cache
def _text_sheet() -> Any:
    """A walk in Python costs three times as much, and `tostring(method="text")` glues `<p>one</p><p>two</p>`. It folds
    the spaces of XML itself: Python would make a string of each word for that, dearer than parsing the page."""
    hidden, blocks = "|".join(_HIDDEN.split()), "|".join(_BLOCKS.split())
    sheet = f"""<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
      <xsl:output method="text" encoding="utf-8"/>
      <xsl:template match="/">
        <xsl:variable name="text"><xsl:apply-templates/></xsl:variable>
        <xsl:value-of select="normalize-space($text)"/>
      </xsl:template>
      <xsl:template match="{hidden}"/>
      <xsl:template match="{blocks}">
        <xsl:text> </xsl:text><xsl:apply-templates/><xsl:text> </xsl:text>
      </xsl:template>
    </xsl:stylesheet>"""
    return etree.XSLT(etree.XML(sheet))
