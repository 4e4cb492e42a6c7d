"""Which encoding a page is in, in the order of the HTML standard: BOM, HTTP header, `<meta>` prescan, then a guess.

The parser underneath is always given valid UTF-8; Python's decoders replace what they cannot read and go on.
"""

import re
from functools import cache

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16le"), (b"\xfe\xff", "utf-16be"))
_PRESCAN = 1024  # bytes in which the standard lets a page name its own encoding
_COMMENT = re.compile(rb"<!--.*?(?:-->|$)", re.DOTALL)
_META = re.compile(rb"<meta[\s/][^>]*?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.\-]+)", re.IGNORECASE)
_XML = re.compile(rb"<\?xml\s[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9_:.\-]+)", re.IGNORECASE)
_ISO = re.compile(r"(?:cs)?iso-?8859-?(\d{1,2})(?:-?[ie])?(?::\d+)?")
_WINDOWS = re.compile(r"(?:windows-|x-cp|cp)(125\d|874)")

_LABELS = {
    "utf-8": "utf8 unicode-1-1-utf-8 unicode11utf8 unicode20utf8 x-unicode20utf8",
    "utf-16le": "utf-16 unicode ucs-2 iso-10646-ucs-2 csunicode unicodefeff",
    "utf-16be": "unicodefffe",
    "windows-1252": "ascii us-ascii latin1 l1 cp819 ibm819 iso-ir-100 csisolatin1 ansi-x3.4-1968 x-user-defined",
    "windows-1254": "latin5 l5 iso-ir-148 csisolatin5",
    "windows-874": "dos-874 tis-620",
    "iso-8859-2": "latin2 l2 iso-ir-101 csisolatin2",
    "iso-8859-5": "cyrillic iso-ir-144 csisolatincyrillic",
    "iso-8859-7": "greek greek8 iso-ir-126 csisolatingreek",
    "iso-8859-8": "hebrew visual logical iso-ir-138 csisolatinhebrew",
    "iso-8859-15": "latin9 l9 csisolatin9",
    "koi8-r": "koi koi8 cskoi8r",
    "koi8-u": "koi8-ru",
    "ibm866": "866 cp866 csibm866",
    "macintosh": "mac x-mac-roman csmacintosh",
    "x-mac-cyrillic": "x-mac-ukrainian",
    "gbk": "gb2312 chinese csgb2312 csiso58gb231280 gb-2312 gb-2312-80 iso-ir-58 x-gbk",
    "gb18030": "",
    "big5": "big5-hkscs cn-big5 csbig5 x-x-big5",
    "euc-jp": "x-euc-jp cseucpkdfmtjapanese",
    "iso-2022-jp": "csiso2022jp",
    "shift_jis": "shift-jis sjis x-sjis ms-kanji ms932 windows-31j csshiftjis",
    "euc-kr": "korean ks-c-5601-1987 ks-c-5601-1989 ksc5601 ksc-5601 windows-949 cseuckr iso-ir-149",
}
"""WHATWG name → its other labels, `_` written as `-`. Families (iso-8859-N, windows-125N) are matched by pattern."""

_CODECS = {
    "utf-16le": "utf-16-le",
    "utf-16be": "utf-16-be",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc-kr": "cp949",
    "big5": "big5hkscs",
    "windows-874": "cp874",
    "macintosh": "mac-roman",
    "x-mac-cyrillic": "mac-cyrillic",
}
"""WHATWG name → Python's codec, where that is called otherwise: the supersets browsers use in fact."""

_LATIN = {1: "windows-1252", 9: "windows-1254", 11: "windows-874"}


def utf8_of(body: bytes, charset: str = "") -> tuple[bytes, str]:
    """`body` as valid UTF-8 without BOM, and the WHATWG name of the encoding it was in. Never raises."""
    for mark, name in _BOMS:
        if body.startswith(mark):
            return _transcoded(body[len(mark) :], name), name
    declared = name_of(charset) or _prescanned(body[:_PRESCAN])
    if declared:
        return _transcoded(body, declared), declared
    if _is_utf8(body):
        return body, "utf-8"
    return _transcoded(body, "windows-1252"), "windows-1252"


def name_of(label: str) -> str:
    """The WHATWG name of an encoding label; empty if it is unknown, which counts as not given."""
    label = label.strip("\t\n\f\r \"'").lower().replace("_", "-")
    if not label or len(label) > 40:
        return ""
    if iso := _ISO.fullmatch(label):
        number = int(iso[1])
        return _LATIN.get(number) or (f"iso-8859-{number}" if 2 <= number <= 16 and number != 12 else "")
    if windows := _WINDOWS.fullmatch(label):
        return f"windows-{windows[1]}" if windows[1] != "1259" else ""
    return _names().get(label, "")


def _prescanned(head: bytes) -> str:
    if b"<!--" in head:
        head = _COMMENT.sub(b"", head)
    found = _META.search(head) or _XML.search(head)
    name = name_of(found[1].decode("ascii")) if found else ""
    # a document that could be read as ASCII so far is not in UTF-16, whatever it says (HTML, 13.2.3.2)
    return "utf-8" if name.startswith("utf-16") else name


def _transcoded(body: bytes, name: str) -> bytes:
    if name == "utf-8" and _is_utf8(body):
        return body
    return body.decode(_CODECS.get(name, name), "replace").encode("utf-8", "replace")


def _is_utf8(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


@cache
def _names() -> dict[str, str]:
    names = {label: name for name, labels in _LABELS.items() for label in labels.split()}
    return names | {name.replace("_", "-"): name for name in _LABELS}
