"""What RFC 9309 says, as cases: a file, an agent, a path, and whether it may be fetched.

Written from the RFC and from what real files contain (misspelt fields, byte order marks, odd line ends). Where the RFC
leaves it open the answer is that of Google's parser, and the case's area is `leniency`.
"""

from typing import NamedTuple


class Case(NamedTuple):
    area: str
    text: bytes
    agent: str
    path: str
    allowed: bool


def _cases(area: str, text: str | bytes, agent: str, *, yes: str = "", no: str = "") -> list[Case]:
    """`yes`, `no`: paths that may and may not be fetched, by spaces."""
    data = text.encode() if isinstance(text, str) else text
    asked = [(path, True) for path in yes.split()] + [(path, False) for path in no.split()]
    return [Case(area, data, agent, path, allowed) for path, allowed in asked]


_ALL = "User-agent: *\n"
_FILLER = "# nothing to see in this line of the file, it only takes room\n"

CORE: list[Case] = [
    # ---- which group is ours, section 2.2.1 ----
    *_cases("groups", "", "headrace", yes="/ /a"),
    *_cases("groups", "Disallow: /a\n", "headrace", yes="/a"),
    *_cases("groups", _ALL + "Disallow: /\n", "headrace", no="/ /a"),
    *_cases("groups", "User-agent: HeadRace\nDisallow: /a\n\n" + _ALL + "Disallow: /b", "headrace", yes="/b", no="/a"),
    *_cases("groups", _ALL + "Disallow: /b\n\nUser-agent: headrace\nDisallow: /a\n", "headrace", yes="/b", no="/a"),
    *_cases("groups", "User-agent: headrace\nDisallow:\n\n" + _ALL + "Disallow: /\n", "headrace", yes="/ /a"),
    *_cases("groups", "User-agent: head\nDisallow: /\n", "headrace", yes="/a"),
    *_cases("groups", "User-agent: headracer\nDisallow: /\n", "headrace", yes="/a"),
    *_cases("groups", "User-agent: race\nDisallow: /\n", "headrace", yes="/a"),
    *_cases("groups", "User-agent: headrace/2.0\nDisallow: /a\n", "headrace", no="/a"),
    *_cases("groups", "User-agent: headrace (all of it)\nDisallow: /a\n", "headrace", no="/a"),
    *_cases("groups", "User-agent: other\nUser-agent: headrace\nDisallow: /a\n", "headrace", yes="/b", no="/a"),
    *_cases("groups", "User-agent: other\nDisallow: /\n", "headrace", yes="/a"),
    *_cases(
        "merging",
        "User-agent: headrace\nDisallow: /a\n\nUser-agent: other\nDisallow: /\n\nUser-agent: headrace\nDisallow: /b\n",
        "headrace",
        yes="/c",
        no="/a /b",
    ),
    *_cases("merging", _ALL + "Disallow: /a\n\n" + _ALL + "Disallow: /b\n", "headrace", yes="/c", no="/a /b"),
    *_cases("merging", "User-agent: headrace\n\n\nDisallow: /a\n", "headrace", no="/a"),
    *_cases("merging", "User-agent: headrace\nSitemap: http://x.example/s\nDisallow: /a\n", "headrace", no="/a"),
    *_cases(
        "merging", "User-agent: other\nSitemap: http://x.example/s\nUser-agent: headrace\nDisallow: /a\n",
        "headrace", yes="/b", no="/a",
    ),
    # ---- which rule decides, section 2.2.2 ----
    *_cases("longest", _ALL + "Disallow: /a\nAllow: /a/b\n", "headrace", yes="/a/b /a/bc /b", no="/a /a/c"),
    *_cases("longest", _ALL + "Allow: /a/b\nDisallow: /a\n", "headrace", yes="/a/b", no="/a/c"),
    *_cases("longest", _ALL + "Allow: /\nDisallow: /a\n", "headrace", yes="/ /b", no="/a"),
    *_cases("longest", _ALL + "Disallow: /a\nAllow: /a\n", "headrace", yes="/a"),
    *_cases("longest", _ALL + "Allow: /p\nDisallow: /\n", "headrace", yes="/page", no="/other"),
    *_cases("longest", _ALL + "Allow: /page\nDisallow: /*.htm\n", "headrace", yes="/page", no="/page.htm"),
    *_cases("longest", _ALL + "Allow: /$\nDisallow: /\n", "headrace", yes="/", no="/page.htm"),
    *_cases("paths", _ALL + "Disallow: /fish\n", "headrace", yes="/Fish /catfish /a/fish", no="/fish /fish.htm /fish?"),
    *_cases("paths", _ALL + "Disallow: /fish/\n", "headrace", yes="/fish /fish.html", no="/fish/ /fish/a"),
    *_cases("paths", _ALL + "Disallow: /a?b=1\n", "headrace", yes="/a /a?c=1", no="/a?b=1 /a?b=12"),
    *_cases("paths", _ALL + "Disallow:\n", "headrace", yes="/ /a"),
    # ---- special characters, section 2.2.3 ----
    *_cases("wildcards", _ALL + "Disallow: /fish*\n", "headrace", yes="/cat", no="/fish /fishes"),
    *_cases("wildcards", _ALL + "Disallow: /*.php\n", "headrace", yes="/ /a.PHP", no="/a.php /a.php?x /b/a.php5"),
    *_cases("wildcards", _ALL + "Disallow: /*.php$\n", "headrace", yes="/a.php?x /a.php/ /a.php5", no="/a.php /b/.php"),
    *_cases("wildcards", _ALL + "Disallow: /a*b*c\n", "headrace", yes="/acb /ab", no="/abc /axbxc /abbcc"),
    *_cases("wildcards", _ALL + "Disallow: /a$b\n", "headrace", yes="/a", no="/a$b"),
    *_cases("wildcards", _ALL + "Disallow: *\nAllow: /a\n", "headrace", yes="/a", no="/b"),
    *_cases("wildcards", _ALL + "Disallow: /a(b\n", "headrace", yes="/ab", no="/a(b"),
    *_cases("wildcards", _ALL + "Disallow: /a.c\n", "headrace", yes="/abc", no="/a.c"),
    *_cases("escapes", _ALL + "Disallow: /a%3cd\n", "headrace", no="/a%3Cd /a%3cd"),
    *_cases("escapes", _ALL + "Disallow: /ä\n", "headrace", no="/%C3%A4 /%c3%a4"),
    *_cases("escapes", _ALL + "Disallow: /%C3%A4\n", "headrace", no="/%C3%A4"),
    *_cases("escapes", _ALL + "Disallow: /a%2Fb\n", "headrace", yes="/a/b", no="/a%2Fb"),
    # ---- how a file is written, sections 2.2 and 2.5 ----
    *_cases("lines", _ALL.replace("\n", "\r\n") + "Disallow: /a\r\n", "headrace", no="/a"),
    *_cases("lines", "User-agent: *\rDisallow: /a\r", "headrace", yes="/b", no="/a"),
    *_cases("lines", _ALL + "Disallow: /a", "headrace", no="/a"),
    *_cases("lines", _ALL + "Disallow: /a # not yet\n", "headrace", no="/a /ab"),
    *_cases("lines", _ALL + "#Disallow: /a\n", "headrace", yes="/a"),
    *_cases("lines", "  USER-AGENT :  *  \n\tdisallow :\t/a\n", "headrace", no="/a"),
    *_cases("lines", _ALL + "Disallow: /x\u2028Disallow: /a\n", "headrace", yes="/a"),
    *_cases("lines", _ALL + "Disallow: /x\x0cDisallow: /a\n", "headrace", yes="/a"),
    *_cases("lines", _ALL + "Disallow: /x\x85Disallow: /a\n", "headrace", yes="/a"),
    *_cases("bytes", b"\xef\xbb\xbf" + (_ALL + "Disallow: /a\n").encode(), "headrace", yes="/b", no="/a"),
    *_cases("bytes", _ALL.encode() + b"Disallow: /\xff\xfe\nDisallow: /a\n", "headrace", yes="/b", no="/a"),
    *_cases("bytes", _ALL.encode() + b"Disallow: /a\x00b\n", "headrace", no="/a"),
    *_cases("bytes", b"<!doctype html><html><body>Not found</body></html>", "headrace", yes="/a"),
    *_cases("limit", _ALL + "Disallow: /a\n" + _FILLER * 9_000, "headrace", yes="/b", no="/a"),
    # ---- what people write ----
    *_cases("leniency", _ALL + "Dissallow: /a\n", "headrace", no="/a"),
    *_cases("leniency", _ALL + "Disalow: /a\n", "headrace", no="/a"),
    *_cases("leniency", "Useragent: *\nDisallow: /a\n", "headrace", no="/a"),
    *_cases("leniency", "User agent: *\nDisallow: /a\n", "headrace", no="/a"),
    *_cases("leniency", "User-agent *\nDisallow /a\n", "headrace", no="/a"),
    *_cases("leniency", "User-agent: * please\nDisallow: /a\n", "headrace", no="/a"),
]  # fmt: skip

STARS = (_ALL + "Disallow: /" + "a*" * 15 + "b$\n").encode(), "/" + "a" * 60
"""A rule that a regular expression takes for ever to see does not match, and the path to try it on."""
