"""Whatever the bytes, an answer comes out."""

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace_parser.markdown import markdown_of
from headrace_parser.page import Parsed, text_of
from headrace_schemas import codec
from headrace_schemas.urls import as_found
from tests.parser.fetched import fetched, parsed

CHARSETS = st.sampled_from(["", "utf-8", "iso-8859-1", "utf-16", "gbk", "shift_jis", "iso-2022-jp", "nonsense", "\0"])
PIECES = st.sampled_from(
    [
        *b"< > </ <!-- --> <![CDATA[ &# &#x D800; <title> <table> <template> <svg> <math> <pre> <li> <ol>".split(),
        *b"<a <base href= href=' name=robots content= <meta <script> </html> <?xml http:// //".split(),
        *(b"'", b'"', b"=", b" ", b"\0", b"\xff\xfe", b"\xed\xa0\x80"),
    ]
)
SOUP = st.lists(st.one_of(PIECES, st.binary(max_size=8)), max_size=60).map(b"".join)


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=400), SOUP), CHARSETS)
def test_any_bytes_are_parsed_or_found_unparsable(body: bytes, charset: str) -> None:
    page = parsed(body, charset=charset)
    assert page.verdict in ("ok", "unparsable")
    check(page)
    codec.decode("pages.parsed", codec.encode(page.message(fetched(), 0.0)))


@settings(max_examples=200, deadline=None)
@given(SOUP, CHARSETS)
def test_any_bytes_can_be_shown(body: bytes, charset: str) -> None:
    text_of(body, charset).encode()
    markdown_of(body, charset, "http://site.test/").encode()


def check(page: Parsed) -> None:
    for text in (page.title, page.description, page.text, page.lang, page.canonical_url, *page.outlinks):
        assert "\0" not in text
        text.encode()
    assert all(as_found(url) == url for url in page.outlinks)
    assert len(set(page.outlinks)) == len(page.outlinks)
