"""What a page says."""

import hashlib

import pytest

from headrace_parser.page import ParseLimits, text_of
from tests.parser.fetched import URL, fetched, parsed


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>one</p><p>two</p>", "one two"),
        ("be<div>fore</div>and <b>aft</b>er", "be fore and after"),
        ("<ul><li>a<li>b</ul>", "a b"),
        ("<table><tr><td>1<td>2<tr><td>3</table>", "1 2 3"),
        ("a<br>b<hr>c", "a b c"),
        ("  many \n\t spaces&nbsp;here  ", "many spaces here"),
        ("seen<script>var x = '<p>no</p>'</script><style>p{}</style>", "seen"),
        ("seen<noscript>no</noscript><template><p>no</template><!-- no --><iframe>no</iframe>", "seen"),
        ("<title>no</title><body>seen", "seen"),
        ("&lt;b&gt; &amp; &eacute; &#x1F600;", "<b> & é 😀"),
        ("just text, no tag", "just text, no tag"),
        ("<svg><title>no</title></svg>x", "x"),
    ],
)
def test_the_text_is_what_a_reader_sees(html: str, text: str) -> None:
    assert parsed(html).text == text
    assert text_of(html.encode()) == text


@pytest.mark.parametrize(
    ("html", "title"),
    [
        ("<title> A \n title </title>", "A title"),
        ("<title>a &amp; <b>b</b></title>", "a & <b>b</b>"),
        ("<title>first</title><title>second</title>", "first"),
        ("<title></title><body><svg><title>icon</title></svg>", ""),
        ("<body><svg><title>icon</title></svg>", ""),
        ("<p>none", ""),
        (f"<title>{'x' * 5_000}</title>", "x" * 1_000),
    ],
)
def test_the_title_is_the_first_one_folded_and_capped(html: str, title: str) -> None:
    assert parsed(html).title == title


@pytest.mark.parametrize(
    ("head", "description"),
    [
        ("<meta name=description content=' a  b '>", "a b"),
        ("<meta name=Description content=x><meta property=og:description content=y>", "x"),
        ("<meta property=og:description content=y>", "y"),
        ("<meta name=description content=''><meta property=og:description content=y>", "y"),
        ("", ""),
    ],
)
def test_the_description_is_the_pages_own_or_else_the_one_for_sharing(head: str, description: str) -> None:
    assert parsed(f"<head>{head}</head><p>x").description == description


def test_language_canonical_url_and_text_hash() -> None:
    page = parsed("<html lang=de-AT><link rel='x CANONICAL' href='../c?a=1#f'><p>Guten  Tag")
    assert (page.lang, page.canonical_url) == ("de-AT", "http://site.test/c?a=1")
    assert page.text_sha256 == hashlib.sha256(b"Guten Tag").hexdigest()
    assert parsed("<link rel=canonical href='javascript:x'>x").canonical_url == ""


def test_text_is_capped_but_its_hash_is_of_all_of_it() -> None:
    limits = ParseLimits(max_text=10)
    one, other = parsed("<p>" + "word " * 9 + "one", limits=limits), parsed("<p>" + "word " * 9 + "two", limits=limits)
    assert one.text == other.text == "word word "
    assert one.text_sha256 != other.text_sha256


@pytest.mark.parametrize(
    ("html", "outlinks"),
    [
        ("<a href=a>", ["http://site.test/dir/a"]),
        ("<a href=/a?b=1&amp;c=2#frag>", ["http://site.test/a?b=1&c=2"]),
        ("<a href=//other.test>", ["http://other.test/"]),
        ("<a href='HTTPS://Other.TEST:443/%7ex/../y'>", ["https://other.test/y"]),
        ("<a href='?p=2'>", ["http://site.test/dir/page.html?p=2"]),
        ("<a href=' \n/spaced path\t'>", ["http://site.test/spaced%20path"]),
        ("<a href=/a><a href=/b><a href=/a><a href=/a#x>", ["http://site.test/a", "http://site.test/b"]),
        ("<map><area href=/m></map>", ["http://site.test/m"]),
        ("<iframe src=/i></iframe>", ["http://site.test/i"]),
        ("<html><frameset><frame src=/f></frameset></html>", ["http://site.test/f"]),
        ("<a href='#top'><a href=''><a><a name=x>", []),
        ("<a href='javascript:x()'><a href=mailto:a@b.c><a href='data:text/html,x'><a href='http://['>", []),
        ("<a href='http://user:pw@site.test/'>", []),
        ("<a rel=nofollow href=/kept>", ["http://site.test/kept"]),
        ("<template><a href=/{{id}}></template><a href=/real>", ["http://site.test/real"]),
        ("<a href=http://ex%41mple.test/>", ["http://example.test/"]),
        ("<a href='http://bücher.test/ü'>", ["http://xn--bcher-kva.test/%C3%BC"]),
    ],
)
def test_links_are_absolute_unique_and_in_page_order(html: str, outlinks: list[str]) -> None:
    page = parsed(html)
    assert list(page.outlinks) == outlinks
    assert [link.url for link in page.links] == outlinks


@pytest.mark.parametrize(
    ("base", "link"),
    [
        ("<base href=/other/>", "http://site.test/other/a"),
        ("<base href=http://else.test/x/y>", "http://else.test/x/a"),
        ("<base target=_top><base href=sub/>", "http://site.test/dir/sub/a"),
        ("<base href='javascript:x'>", "http://site.test/dir/a"),
        ("<base href='http://['>", "http://site.test/dir/a"),
    ],
)
def test_links_are_relative_to_a_base_that_makes_sense(base: str, link: str) -> None:
    assert parsed(f"<head>{base}</head><a href=a>").outlinks == (link,)
    assert parsed(f"<a href=a>x</a>{base}").outlinks == (link,), "even where it comes late"


def test_links_of_one_dedupe_key_are_listed_twice_and_sent_once() -> None:
    page = parsed("<a href='/a?x=1&y=2'><a href='/a?y=2&x=1'><a href='/a?x=1&y=2&utm_source=z'>")
    assert len(page.outlinks) == 3
    assert [link.url for link in page.links] == ["http://site.test/a?x=1&y=2"]


def test_links_are_capped() -> None:
    html = "".join(f"<a href=/{n}>x</a>" for n in range(50))
    page = parsed(html, limits=ParseLimits(max_links=7))
    assert page.outlinks == tuple(f"http://site.test/{n}" for n in range(7))


@pytest.mark.parametrize(
    ("head", "headers", "noindex", "nofollow"),
    [
        ("<meta name=robots content='noindex, nofollow'>", (), True, True),
        ("<meta name=ROBOTS content=NOINDEX>", (), True, False),
        ("<meta name=robots content=none>", (), True, True),
        ("<meta name=headrace content=nofollow>", (), False, True),
        ("<meta name=otherbot content=nofollow>", (), False, False),
        ("<meta name=robots content='index,follow'>", (("x-robots-tag", "nofollow"),), False, True),
        ("", (("x-robots-tag", "otherbot: noindex, nofollow"),), False, False),
        ("", (("x-robots-tag", "otherbot: noindex, headrace: nofollow"),), False, True),
        ("", (("x-robots-tag", "unavailable_after: 25 Jun 2030 15:00:00 PST, noindex"),), True, False),
        ("", (("x-robots-tag", "noindex"), ("x-robots-tag", "nofollow")), True, True),
        ("", (), False, False),
    ],
)
def test_a_page_that_asks_not_to_be_followed_yields_no_links(
    head: str, headers: tuple[tuple[str, str], ...], noindex: bool, nofollow: bool
) -> None:
    page = parsed(f"<head>{head}</head><a href=/a>", headers=headers)
    assert (page.noindex, page.nofollow) == (noindex, nofollow)
    assert page.outlinks == ("http://site.test/a",)
    assert bool(page.links) is not nofollow


@pytest.mark.parametrize("media_type", ["application/pdf", "text/plain", "image/png", "application/json"])
def test_what_is_no_html_is_not_parsed(media_type: str) -> None:
    page = parsed("<title>x</title><a href=/a>", content_type=media_type)
    assert (page.verdict, page.title, page.outlinks) == ("not_html", "", ())


@pytest.mark.parametrize("body", [b"", b" \r\n\t ", b"<!-- only -->", b"\x89PNG\r\n\x1a\n" + bytes(range(32)) * 40])
def test_what_holds_no_document_is_unparsable(body: bytes) -> None:
    assert parsed(body).verdict == "unparsable"


def test_a_page_nested_beyond_reason_keeps_what_came_before() -> None:
    page = parsed("<title>t</title><a href=/before>x</a>" + "<div>" * 100_000 + "<a href=/deep>")
    assert (page.verdict, page.title, page.outlinks) == ("unparsable", "t", ("http://site.test/before",))


def test_a_page_nested_deeply_is_read_to_its_end() -> None:
    page = parsed("<div>" * 1_500 + "<a href=/deep>deep</a>" + "</div>" * 1_500 + "<a href=/after>after</a>")
    assert (page.verdict, page.text) == ("ok", "deep after")
    assert page.outlinks == ("http://site.test/deep", "http://site.test/after")


@pytest.mark.parametrize(
    "body",
    [
        b"<p>" + b"x " * 5_200_000 + b"</p><a href=/end>end</a>",
        b"<p title='" + b"x" * 10_400_000 + b"'></p><a href=/end>end</a>",
        b"<a href=/end>end</a>" * 520_000,
        b"<!--" + b"-" * 10_400_000 + b"--><a href=/end>end</a>",
    ],
    ids=["text", "attribute", "elements", "comment"],
)
def test_ten_megabytes_are_read_to_the_end(body: bytes) -> None:
    page = parsed(body)
    assert (page.verdict, page.outlinks) == ("ok", ("http://site.test/end",))


def test_no_nul_and_no_lone_surrogate_comes_out() -> None:
    page = parsed(b"<title>a\0b&#0;&#xD800;</title><p>c\0d&#xDFFF;&#0;<a href='/x\0y&#xD800;'>")
    for text in (page.title, page.text, *page.outlinks):
        assert "\0" not in text
        text.encode()


def test_a_page_whose_own_url_is_broken_still_gives_its_absolute_links() -> None:
    page = parsed("<a href=http://a.test/x><a href=/relative>", url="nonsense")
    assert page.outlinks == ("http://a.test/x",)


def test_the_message_carries_the_identity_of_the_fetch() -> None:
    page = fetched(fetch_id=7)
    message = parsed("<title>t").message(page, at=5.0)
    assert (message.fetch_id, message.url, message.key) == (7, URL, page.key)
    assert (message.title, message.parsed_at) == ("t", 5.0)
