"""Which media types a task wants, and what a body without one looks like."""

from headrace_schemas.messages import TaskKind

HTML = frozenset({"text/html", "application/xhtml+xml"})
SITEMAP = frozenset(
    {"application/xml", "text/xml", "text/plain", "application/gzip", "application/x-gzip", "application/rss+xml"}
    | {"application/atom+xml", "application/octet-stream"}
)

# WHATWG MIME Sniffing, section 7.1: the tags that mean HTML when a body begins with them.
_TAGS = tuple(
    b"<" + name
    for name in (
        *(b"!doctype html", b"html", b"head", b"script", b"iframe", b"h1", b"div", b"font", b"table", b"a", b"style"),
        *(b"title", b"b", b"body", b"br", b"p", b"meta", b"link"),
    )
)


def wanted(kind: TaskKind, media: str) -> bool:
    return media in HTML or (kind == "sitemap" and media in SITEMAP)


def looks_like_html(start: bytes) -> bool:
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip(b"\t\n\x0c\r ").lower()
    if text.startswith(b"<!--"):
        return True
    if text.startswith(b"<?xml"):
        return b"<html" in text or b"<!doctype html" in text
    return any(
        text.startswith(tag) and text[len(tag) : len(tag) + 1] in (b" ", b">", b"\t", b"\n", b"\r", b"/", b"")
        for tag in _TAGS
    )
