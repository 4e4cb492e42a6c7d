"""A stored page, shown as Markdown."""

import pytest

from headrace_parser.markdown import markdown_of


@pytest.mark.parametrize(
    ("html", "markdown"),
    [
        ("<h1>One</h1><h3>Three</h3>", "# One\n\n### Three"),
        ("<p>a  b<p>c<br>d", "a b\n\nc\nd"),
        ("a <b>bold</b> and <em>slanted</em> <code>x</code>", "a **bold** and *slanted* `x`"),
        ("<a href=/x>a <b>link</b></a>", "[a **link**](http://site.test/x)"),
        ("<a href='/(x)'>y</a>", "[y](http://site.test/%28x%29)"),
        ("<a href='javascript:x()'>y</a><a href='#z'>z</a>", "yz"),
        ("<ul><li>a<ul><li>b</ul><li>c</ul>", "- a\n\n  - b\n\n- c"),
        ("<ol><li>a<li>b</ol>", "1. a\n\n2. b"),
        ("<blockquote>q</blockquote>r", "> q\n\nr"),
        ("<pre>  a\n    b</pre>", "```\n  a\n    b\n```"),
        ("<pre>```</pre>", "```\n'''\n```"),
        ("<table><tr><td>1<td>2</table>", "1 | 2"),
        ("&lt;script&gt; *x* [y](z)", "\\<script\\> \\*x\\* \\[y\\](z)"),
        ("<script>no</script><style>no</style>x", "x"),
        ("<img alt='a picture'>", "a picture"),
        ("a<hr>b", "a\n\n---\n\nb"),
        ("", ""),
    ],
)
def test_structure_stays_and_nothing_runs(html: str, markdown: str) -> None:
    assert markdown_of(html.encode(), "utf-8", "http://site.test/dir/") == markdown


def test_nesting_deeper_than_pythons_stack_is_shown() -> None:
    depth = 1_900
    assert markdown_of(b"<div>" * depth + b"deep" + b"</div>" * depth) == "deep"
    assert markdown_of(b"<ul><li>" * 900 + b"deep").strip() == "- deep"
