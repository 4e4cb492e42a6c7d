"""URLs in their two forms."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace_schemas.errors import UsageError
from headrace_schemas.urls import (
    MAX_URL,
    BadUrl,
    Canonicaliser,
    CanonicalRules,
    as_found,
    host_of,
    is_address,
    origin_of,
    registrable_domain,
)

_WORDS = "http: https: HTTP: / // \\ ? # & = a b . .. % %2 %41 %7e %2F %e9 4 1 x.example é ß : @ [::1] ; utm_a + { | 80"
_NASTY = ":0 :80 ;jsessionid= %2e . .. J;v= xn-- 0x7f 1.2 ref= page= ?? && \\."
_PIECES = st.sampled_from([*_WORDS.split(" "), *_NASTY.split(" "), "\n", "\t", " "])
hrefs = st.lists(_PIECES, max_size=9).map("".join) | st.text(max_size=30)
BASE = "http://h.example/a/b?q=1"
PLAIN = Canonicaliser()
STRICT = Canonicaliser(CanonicalRules(drop_trailing_slash=True, sort_params=False))
BARE = Canonicaliser(CanonicalRules(drop_params=("*",), drop_trailing_slash=True))
SITES = Canonicaliser(
    CanonicalRules(
        sites=(
            *("keep.test keep id page", "keep.test keep ref", "drop.test drop x y*", "all.test drop *"),
            *("*.wide.test drop z", "near.wide.test keep a", "every.test keep *", "*.x.example keep a"),
        )
    )
)


@pytest.mark.parametrize(
    ("raw", "found"),
    [
        ("http://example.com", "http://example.com/"),
        ("HTTP://EXAMPLE.com:80/", "http://example.com/"),
        ("https://example.com:443/a#b", "https://example.com/a"),
        ("http://example.com:8080/a/../b/./c", "http://example.com:8080/b/c"),
        ("  http://example.com/a b\n", "http://example.com/a%20b"),
        ("ht\ntp://example.com/a\r\nb", "http://example.com/ab"),
        ("http://bücher.example/ü?ü", "http://xn--bcher-kva.example/%C3%BC?%C3%BC"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://example.com./a", "http://example.com/a"),
        ("http://EXAMPLE.com.:80/a", "http://example.com/a"),
        ("http://example.com.:81/:0", "http://example.com:81/:0"),
        ("http://127.0.0.1./", "http://127.0.0.1/"),
        ("http://[::0001]/", "http://[::1]/"),
        ("http:\\\\example.com\\a", "http://example.com/a"),
        ("http://example.com/?b=2&a=1", "http://example.com/?b=2&a=1"),
        ("http://example.com/%7Ea/%e9", "http://example.com/%7Ea/%e9"),
        ("http://example.com/a/.b/../c", "http://example.com/a/c"),
        ("http://example.com/.x/%2E./private?/../x", "http://example.com/private?/../x"),
        ("http://example.com/.x/y/..", "http://example.com/.x/"),
    ],
)
def test_as_found_is_what_a_browser_would_ask_for(raw: str, found: str) -> None:
    assert as_found(raw) == found


@pytest.mark.parametrize(
    ("href", "found"),
    [
        ("c", "http://h.example/a/c"),
        ("/c", "http://h.example/c"),
        ("\\c", "http://h.example/c"),
        ("//o.example/c", "http://o.example/c"),
        ("/\t/o.example/c", "http://o.example/c"),
        ("\\\\o.example/c", "http://o.example/c"),
        ("https://o.example", "https://o.example/"),
        ("ht\ntps://o.example", "https://o.example/"),
        ("?p", "http://h.example/a/b?p"),
        ("#f", "http://h.example/a/b?q=1"),
        ("", "http://h.example/a/b?q=1"),
        ("  ", "http://h.example/a/b?q=1"),
        ("..", "http://h.example/"),
        ("../../../c", "http://h.example/c"),
        ("./c;d?e#f", "http://h.example/a/c;d?e"),
        ("http:c", "http://h.example/a/c"),
        ("http:/c", "http://h.example/c"),
        ("HTTP://o.example/c", "http://o.example/c"),
        ("https:o.example/c", "https://o.example/c"),
        ("c:d", None),
        ("mailto:a@b.example", None),
        ("javascript:void(0)", None),
        ("data:text/html,x", None),
        ("//u:p@o.example/", None),
        ("http://", None),
        ("http://a b/", None),
        ("http://[::1/", None),
        ("http://1.2.3.4.5/", None),
        ("http://o.example:99999/", None),
        ("\ud800", None),
        ("/" + "a" * MAX_URL, None),
        ("/" + "a" * 1_000_000, None),
    ],
)
def test_a_link_is_taken_relative_to_its_page_or_refused(href: str, found: str | None) -> None:
    if found is None:
        with pytest.raises(BadUrl):
            as_found(href, BASE)
    else:
        assert as_found(href, BASE) == found


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("ftp://example.com/", "scheme"),
        ("example.com", "unparsable"),
        ("http://me@example.com/", "userinfo"),
        ("http://example.com/" + "a" * MAX_URL, "too_long"),
        ("http://%00/", "unparsable"),
        ("http://example.com:99999/", "bad_port"),
        ("http://example.com:http/", "bad_port"),
        ("http://example.com:0/", "bad_port"),
        ("http://[::1]:x/", "bad_port"),
        ("http://[::1/", "unparsable"),
        ("http://a b:99999/", "unparsable"),
        ("http://example.com../", "unparsable"),
        ("http://./", "no_host"),
    ],
)
def test_a_refusal_has_a_reason_in_one_word(raw: str, reason: str) -> None:
    with pytest.raises(BadUrl) as caught:
        as_found(raw)
    assert caught.value.reason == reason
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://e.org/a?b=1&a=2", "http://e.org/a?a=2&b=1"),
        ("http://e.org/a?", "http://e.org/a"),
        ("http://e.org/a?&&b", "http://e.org/a?b"),
        ("http://e.org/a?utm_source=x&b=1", "http://e.org/a?b=1"),
        ("http://e.org/a?UTM_Source=x", "http://e.org/a"),
        ("http://e.org/a?%75tm_source=x", "http://e.org/a"),
        ("http://e.org/%7ea", "http://e.org/~a"),
        ("http://e.org/%e9", "http://e.org/%E9"),
        ("http://e.org/a?srsltid=1&_hsenc=2&oly_enc_id=3&vero_id=4&mkt_tok=5&IGSHID=6&b", "http://e.org/a?b"),
        ("http://e.org/a;JSESSIONID=1A2B?b", "http://e.org/a?b"),
        ("http://e.org/;jsessionid=1A2B;v=1/b", "http://e.org/;v=1/b"),
    ],
)
def test_spellings_of_one_page_share_a_key(one: str, other: str) -> None:
    assert PLAIN.key(one) == PLAIN.key(other)
    assert len(PLAIN.key(one)) == 16


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("http://e.org/a", "https://e.org/a"),
        ("http://e.org/a", "http://e.org/A"),
        ("http://e.org/a", "http://e.org/a/"),
        ("http://e.org/a%2Fb", "http://e.org/a/b"),
        ("http://e.org/?a=1&a=2", "http://e.org/?a=1"),
        ("http://e.org/?refs=1", "http://e.org/"),
        ("http://e.org/%4%41", "http://e.org/J"),
        ("http://e.org/%%341", "http://e.org/A"),
    ],
)
def test_different_pages_have_different_keys(one: str, other: str) -> None:
    assert PLAIN.key(one) != PLAIN.key(other)


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("http://keep.test/?page=2&x=1&ref=a&ID=7&utm_a=1", "http://keep.test/?ID=7&page=2&ref=a"),
        ("http://keep.test:81/?x=1", "http://keep.test:81/"),
        ("http://www.keep.test/?x=1&ref=a", "http://www.keep.test/?x=1"),
        ("http://drop.test/?x=1&yes=1&ref=1&z=1", "http://drop.test/?z=1"),
        ("http://all.test/?x=1&=&y", "http://all.test/"),
        ("http://wide.test/?z&a&b", "http://wide.test/?a&b"),
        ("http://b.a.wide.test/?z&a&b", "http://b.a.wide.test/?a&b"),
        ("http://near.wide.test/?z&a&b", "http://near.wide.test/?a"),
        ("http://notwide.test/?z", "http://notwide.test/?z"),
        ("http://every.test/a;jsessionid=1?utm_a=1", "http://every.test/a;jsessionid=1?utm_a=1"),
        ("http://else.test/?utm_a=1&b", "http://else.test/?b"),
    ],
)
def test_a_site_may_have_its_own_parameters_that_matter(url: str, canonical: str) -> None:
    assert SITES.canonical(url) == canonical


def test_a_site_rule_that_cannot_be_read_is_an_error_of_usage() -> None:
    with pytest.raises(UsageError, match=r"canonical\.sites"):
        Canonicaliser(CanonicalRules(sites=("a.test lose x",)))


def test_a_trailing_slash_is_dropped_only_where_asked_and_never_the_root() -> None:
    assert STRICT.canonical("http://e.org/a/") == "http://e.org/a"
    assert STRICT.canonical("http://e.org/") == "http://e.org/"
    assert PLAIN.canonical("http://e.org/a/") == "http://e.org/a/"
    assert STRICT.canonical("http://e.org/?b&a") == "http://e.org/?b&a"


_SEGMENTS = st.sampled_from(
    (".", "..", "%2e", "%2E%2e", ".%2e", ".b", "..b", "...", "%2eb", "a", "a;", "b..", "%", "", ";x")
)


@given(st.lists(_SEGMENTS, max_size=7).map("/".join), st.sampled_from(["", "?/../q", "#/../f"]))
@example("a/.b/../c", "")
@example(".x/../private", "")
@example(".x/%2e%2e/.y/.", "?/../q")
@example("a//../.b/..", "")
def test_no_dot_segment_outlives_the_names_around_it(path: str, rest: str) -> None:
    for raw, base in ((f"http://h.example/{path}{rest}", ""), (f"/{path}{rest}", BASE)):
        if raw.startswith("//"):
            continue  # a host, not a path
        found = as_found(raw, base)
        assert found == f"http://h.example/{_resolved(path.split('/'))}{rest if rest[:1] == '?' else ''}"
        assert as_found(found) == found


@given(st.lists(_SEGMENTS, min_size=1, max_size=7).map("/".join).filter(lambda path: path[:1] != "/"))
def test_a_relative_link_steps_up_from_its_page(path: str) -> None:
    wanted = "http://h.example/" + _resolved(["a", ".b", *path.split("/")])
    assert as_found(path or "./", "http://h.example/a/.b/c?q") == wanted


def _resolved(segments: list[str]) -> str:
    """By the letter of the URL standard: what each segment does to the path so far."""
    path: list[str] = []
    for number, segment in enumerate(segments, 1):
        last = number == len(segments)
        match segment.lower().replace("%2e", "."):
            case "..":
                path = path[:-1] + [""] * last
            case ".":
                path = path + [""] * last
            case _:
                path = [*path, segment]
    return "/".join(path)


@given(hrefs)
@example("/%4%41")
@example("/%%41b")
@example("http://0x7f.1../")
@example("http://a.example./?")
@example("/..;jsessionid=1/b")
@example("/a;jsessionid=.;jsessionid=")
@example("https://;jsessionid=/;jsessionid=")
@example("/a//;jsessionid=1//?&=&")
@example("//x.example/%2%34%31?%%37%35tm_a&%7e")
def test_both_forms_are_idempotent_whatever_the_href(href: str) -> None:
    try:
        found = as_found(href, BASE)
    except BadUrl:
        return
    assert as_found(found) == found
    assert found.startswith(("http://", "https://"))
    assert "#" not in found
    assert found.isascii()
    for canonicaliser in (PLAIN, STRICT, BARE, SITES):
        canonical = canonicaliser.canonical(found)
        assert canonicaliser.canonical(canonical) == canonical
        assert as_found(canonical) == canonical
        assert host_of(canonical) == host_of(found)


@given(st.lists(hrefs, max_size=4), st.sampled_from([BASE, "https://h.example/c/", ""]))
def test_what_was_found_before_is_found_again(raws: list[str], base: str) -> None:
    for raw in raws * 2:
        try:
            url = as_found(raw, base)
        except BadUrl:
            with pytest.raises(BadUrl):
                PLAIN.find(raw, base)
        else:
            assert PLAIN.find(raw, base) == (url, PLAIN.key(url))


def test_links_are_remembered_one_object_each_but_not_without_bound() -> None:
    plain = Canonicaliser()
    assert plain.find("/a", BASE) is plain.find("a", "http://h.example/x")
    assert plain.find("/" + "x" * 1_000, BASE) is not plain.find("/" + "x" * 1_000, BASE)


@given(st.lists(st.sampled_from(["a=1", "a=2", "b", "utm_x=1", "c=%41", "d=é"])), st.randoms())
def test_the_order_of_parameters_does_not_matter(pairs: list[str], random: st.DrawFn) -> None:
    shuffled = list(pairs)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = (PLAIN.find("http://e.org/?" + "&".join(some)) for some in (pairs, shuffled))
    assert one.key == other.key


def test_the_fingerprint_names_the_rules() -> None:
    assert PLAIN.fingerprint == Canonicaliser(CanonicalRules()).fingerprint
    assert len({each.fingerprint for each in (PLAIN, STRICT, BARE, SITES)}) == 4
    assert PLAIN.fingerprint == "1:948510b2c9cc8b44"


@pytest.mark.parametrize(
    ("url", "origin", "host"),
    [
        ("http://e.org/a/b", "http://e.org", "e.org"),
        ("https://e.org:8443/", "https://e.org:8443", "e.org"),
        ("http://[::1]:8080/x", "http://[::1]:8080", "[::1]"),
        ("http://[::1]/", "http://[::1]", "[::1]"),
        ("http://127.0.0.1:1/?a=//b", "http://127.0.0.1:1", "127.0.0.1"),
    ],
)
def test_parts_of_a_url(url: str, origin: str, host: str) -> None:
    assert (origin_of(url), host_of(url)) == (origin, host)


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("a.b.example.co.uk", "example.co.uk"),
        ("www.example.org", "example.org"),
        ("example.org.", "example.org"),
        ("co.uk", "co.uk"),
        ("localhost", "localhost"),
        ("127.0.0.1", "127.0.0.1"),
        ("[::1]", "[::1]"),
    ],
)
def test_the_registrable_domain(host: str, domain: str) -> None:
    assert registrable_domain(host) == domain


def test_addresses_are_told_from_names() -> None:
    assert is_address("127.0.0.1")
    assert is_address("[::1]")
    assert not is_address("1.2.3.4.example")
