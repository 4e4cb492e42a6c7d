"""Pages that would take a parser hours are cut where they become so; others are not."""

import pytest

from headrace_parser.nesting import DEEP, MANY, NAMES, bounded
from tests.parser.fetched import parsed

FILLER = b"<p>text</p>" * MANY  # tags enough that nesting is looked at


@pytest.mark.parametrize(
    "piece",
    [b"<div>", b"<ul><li>", b"<DIV><p>", b"<div></x>", b"<div><!--</div>-->", b"<div><script></div></script>"],
    ids=lambda piece: piece.decode(),
)
def test_a_page_is_cut_where_it_is_nested_beyond_reason(piece: bytes) -> None:
    kept = bounded(FILLER + piece * 50_000)
    assert len(kept) == len(FILLER) + DEEP * len(piece)
    page = parsed(b"<a href=/before>x</a>" + FILLER + piece * 50_000 + b"<a href=/after>x</a>")
    assert (page.verdict, page.outlinks) == ("unparsable", ("http://site.test/before",))


@pytest.mark.parametrize(
    "body",
    [
        b"<br><img src=x><li><p><a href=x>" * 20_000,
        b"<table>" + b"<tr><td>1<td>2" * 20_000,
        b"<div><span><b></div>" * 20_000,
        b"<!-- <div> --><!--><!---><script>'<div>'</script><textarea><div></textarea>" * 20_000,
        b"<div>" * DEEP + FILLER,
    ],
    ids=["void and implied", "a table of old", "closed from outside", "what is no tag", "just as deep as may be"],
)
def test_a_page_with_many_tags_is_whole(body: bytes) -> None:
    assert bounded(body) is body


def test_a_page_with_few_tags_is_whole_however_deep() -> None:
    body = b"<div>" * MANY + b" " * 4 * MANY
    assert bounded(body) is body


def test_a_page_is_cut_where_it_has_more_names_than_could_be_meant() -> None:
    body = b"".join(b"<x%d></x%d>" % (number, number) for number in range(300_000))
    assert bounded(body).count(b"</") == NAMES
    assert parsed(body).verdict == "unparsable"
