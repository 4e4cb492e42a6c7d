"""Which encoding a page is read in."""

import pytest

from headrace_parser.encoding import name_of, utf8_of
from tests.parser.fetched import parsed


@pytest.mark.parametrize(
    ("body", "charset", "encoding", "text"),
    [
        ("<p>é".encode(), "", "utf-8", "é"),
        ("<p>é".encode("latin-1"), "", "windows-1252", "é"),
        (b"<p>\x93q\x94 \x80", "iso-8859-1", "windows-1252", "“q” €"),
        (b"\xef\xbb\xbf<p>\xc3\xa9", "shift_jis", "utf-8", "é"),
        ("\ufeff<p>é".encode("utf-16-le"), "utf-8", "utf-16le", "é"),
        ("\ufeff<p>é".encode("utf-16-be"), "", "utf-16be", "é"),
        ("<p>é".encode("utf-16-le"), "utf-16", "utf-16le", "é"),
        ("<p>日本".encode("cp932"), "Shift_JIS", "shift_jis", "日本"),
        ("<meta charset=euc-jp><p>日本".encode("euc-jp"), "", "euc-jp", "日本"),
        ("<meta charset=iso-8859-2><p>ł".encode(), "utf-8", "utf-8", "ł"),
        ("<meta http-equiv=x content='text/html; charset=koi8-r'><p>да".encode("koi8-r"), "", "koi8-r", "да"),
        ("<!-- <meta charset=koi8-r> --><p>é".encode(), "", "utf-8", "é"),
        ("<meta charset=gb2312><p>中文".encode("gbk"), "", "gbk", "中文"),
        ("<meta charset=big5><p>中文".encode("big5"), "", "big5", "中文"),
        ("<meta charset='euc-kr'><p>한국".encode("cp949"), "", "euc-kr", "한국"),
        ("<meta charset=utf-16><p>é".encode(), "", "utf-8", "é"),
        ("<?xml version='1.0' encoding='iso-8859-2'?><p>ł".encode("iso-8859-2"), "", "iso-8859-2", "ł"),
        ("<p>é".encode(), "nonsense", "utf-8", "é"),
        ("<meta charset=nonsense><p>é".encode("latin-1"), "", "windows-1252", "é"),
        (b"<p>a\xffb", "utf-8", "utf-8", "a\ufffdb"),
        ((b" " * 1024) + "<meta charset=koi8-r><p>é".encode(), "", "utf-8", "é"),
        ("<p>ก".encode("cp874"), "tis-620", "windows-874", "ก"),
    ],
)
def test_bom_then_header_then_meta_then_a_guess(body: bytes, charset: str, encoding: str, text: str) -> None:
    page = parsed(body, charset=charset)
    assert (page.encoding, page.text) == (encoding, text)


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("UTF8", "utf-8"),
        ('"utf-8"', "utf-8"),
        ("latin1", "windows-1252"),
        ("ISO_8859-1:1987", "windows-1252"),
        ("ISO8859-9", "windows-1254"),
        ("iso-8859-8-i", "iso-8859-8"),
        ("cp1251", "windows-1251"),
        ("x-cp1250", "windows-1250"),
        ("ks_c_5601-1987", "euc-kr"),
        ("x-sjis", "shift_jis"),
        ("iso-8859-12", ""),
        ("windows-1259", ""),
        ("utf-7", ""),
        ("rot13", ""),
        ("zlib", ""),
        ("", ""),
        ("x" * 1_000, ""),
    ],
)
def test_labels_are_those_of_browsers(label: str, name: str) -> None:
    assert name_of(label) == name


@pytest.mark.parametrize("label", ["utf-8", "utf-16", "gbk", "gb18030", "big5", "euc-jp", "iso-2022-jp", "shift_jis"])
@pytest.mark.parametrize("junk", [bytes(range(256)) * 3, b"\xff" * 99, b"\x1b$B\x80", b"\x81\x30\x81", b"\xd8\x00"])
def test_what_cannot_be_decoded_is_replaced(label: str, junk: bytes) -> None:
    text, _ = utf8_of(b"a" + junk, label)
    text.decode()


def test_every_known_label_has_a_decoder() -> None:
    labels = ["macintosh", "x-mac-cyrillic", "ibm866", "koi8-u", "euc-kr", "tis-620", "greek", "hebrew", "cyrillic"]
    labels += [f"iso-8859-{n}" for n in range(1, 17)] + [f"windows-125{n}" for n in range(9)]
    for label in labels:
        assert utf8_of(b"abc", label)[0] == b"abc"
