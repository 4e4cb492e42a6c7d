"""What the index holds after which messages, on SQLite and on PostgreSQL."""

import contextlib
import itertools
import json
import random
import sqlite3
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import text

from headrace_schemas.errors import FatalError, Poison, TooNew, UsageError
from headrace_schemas.messages import Deferred, Failed, Fetched, Refused, Robots
from headrace_schemas.settings import IndexSettings, Settings
from headrace_storer.handler import handle
from headrace_storer.index import Index, open_index
from headrace_storer.views import PageRow
from tests.storer.storer_messages import (
    URL,
    failed,
    key_of,
    not_modified,
    page,
    parsed,
    record,
    redirected,
    result,
)


def save(index: Index, *messages: msgspec.Struct) -> None:
    jobs = [handle(record(message)) for message in messages]
    index.save([job.change for job in jobs if job.change is not None])


def only_row(index: Index) -> PageRow:
    (row,) = index.rows()
    return row


def test_a_fetched_page_has_a_row_with_all_its_fields(index: Index) -> None:
    save(index, page(1, attempt=3, proxy_id="p1", chain=("http://site.test/old",)), parsed(1, lang="en"))
    row = only_row(index)
    sha = page().sha256
    assert msgspec.structs.astuple(row)[:-1] == (
        "2023-11-14T22:13:21.250Z",
        URL,
        "page",
        2,
        "http://site.test/",
        200,
        "text/html",
        "windows-1252",
        sha,
        14,
        f"store/html/{sha[:2]}/{sha[2:4]}/{sha}.html.zst",
        '"e1"',
        "Tue, 14 Nov 2023 22:13:20 GMT",
        12,
        2,
        "p1",
    )
    metadata = json.loads(row.metadata)
    assert list(metadata) == sorted(metadata)
    assert metadata == {"chain": ["http://site.test/old"], "lang": "en", "title": "Title 1", "verdict": "ok"}


def test_the_encoding_is_that_of_the_header_until_the_page_is_parsed(index: Index) -> None:
    save(index, page(1))
    assert only_row(index).encoding == "utf-8"
    save(index, parsed(1))
    assert only_row(index).encoding == "windows-1252"


def test_a_304_renews_status_and_time_and_keeps_the_body(index: Index) -> None:
    save(index, page(1), parsed(1))
    before = only_row(index)
    save(index, not_modified(5))
    after = only_row(index)
    assert (after.http_status, after.timestamp) == (304, "2023-11-14T22:13:25.500Z")
    kept = ("content_type", "encoding", "content_sha256", "content_bytes", "stored_path", "etag", "last_modified")
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert json.loads(after.metadata)["title"] == "Title 1"


def test_a_304_that_names_validators_renews_them(index: Index) -> None:
    save(index, page(1), not_modified(2, etag='"new"'))
    assert (only_row(index).etag, only_row(index).last_modified) == ('"new"', "")


def test_a_304_without_a_row_leaves_what_is_known(index: Index) -> None:
    save(index, not_modified(2, etag='"e"'))
    row = only_row(index)
    assert (row.url, row.http_status, row.etag, row.content_sha256, row.stored_path) == (URL, 304, '"e"', "", "")
    assert list(index.known_bodies()) == []


@pytest.mark.parametrize("later", [failed(7), failed(7, "timeout", 0), redirected(7)])
def test_a_refresh_that_fails_or_moves_loses_nothing_of_the_body(index: Index, later: msgspec.Struct) -> None:
    save(index, page(1), later)
    row = only_row(index)
    assert row.http_status in (503, 0, 301)
    assert (row.content_sha256, row.etag, row.content_bytes) == (page().sha256, '"e1"', 14)
    assert len(list(index.stored())) == 1


def test_a_failure_says_why_in_its_metadata(index: Index) -> None:
    save(index, failed(1, "timeout", 0))
    row = only_row(index)
    assert row.http_status == 0
    assert json.loads(row.metadata) == {"reason": "timeout", "detail": "so it said"}


def test_a_redirect_names_its_target_in_its_metadata(index: Index) -> None:
    save(index, redirected(1, "http://site.test/there"))
    row = only_row(index)
    assert (row.url, row.http_status) == (URL, 301)
    assert json.loads(row.metadata) == {"redirect_to": "http://site.test/there"}


def test_an_older_message_is_ignored(index: Index) -> None:
    save(index, page(5, body=b"new"), parsed(5))
    save(index, page(4, body=b"old"), failed(3), not_modified(2), parsed(4))
    assert only_row(index).content_sha256 == page(body=b"new").sha256
    assert only_row(index).http_status == 200
    assert json.loads(only_row(index).metadata)["title"] == "Title 5"


def test_what_the_frontier_gave_up_unfetched_has_a_row_but_replaces_none(index: Index) -> None:
    given_up = "http://dead.test/"
    save(index, page(1), failed(0, "host_dead", 0), failed(0, "robots_unavailable", 0, given_up, finished_at=0.0))
    rows = {row.url: row for row in index.rows()}
    assert rows[URL].http_status == 200
    assert json.loads(rows[given_up].metadata)["reason"] == "robots_unavailable"
    assert rows[given_up].timestamp == "2023-11-14T22:15:00.000Z"  # when it was appended


@pytest.mark.parametrize(
    "message",
    [
        result(1, Fetched(200, 14, page().sha256)),
        result(1, Fetched(304)),
        result(1, Refused("address")),
        result(1, Deferred(1.0, "wait")),
        result(1, Robots(200, b"User-agent: *"), kind="robots"),
        result(1, Failed("timeout"), kind="robots"),
        result(1, Failed("http", 404), kind="sitemap"),
    ],
)
def test_what_is_no_page_of_its_own_has_no_row(message: msgspec.Struct) -> None:
    assert handle(record(message)).change is None


# ---- any order, any number of times -----------------------------------------------------------------

_HISTORY: tuple[msgspec.Struct, ...] = (
    failed(0, "host_dead", 0),
    failed(1),
    page(2, body=b"first"),
    parsed(2),
    not_modified(3),
    redirected(4, url="http://site.test/page"),
    page(5, body=b"second"),
    page(5, body=b"second, fetched twice", fetched_at=1_700_000_009.0),
    parsed(5),
    not_modified(6, etag='"six"'),
    failed(7, "connect", 0),
    page(8, url="http://site.test/q", body=b"another"),
    parsed(8, url="http://site.test/q"),
)


def state_of(index: Index) -> list[object]:
    details = [index.get(key_of(url)) for url in (URL, "http://site.test/q")]
    return [*details, sorted(index.stored()), sorted(index.known_bodies())]


def expected_after(tmp_path: Path, messages: Sequence[msgspec.Struct], name: str) -> list[object]:
    settings = Settings(index=IndexSettings(url=f"sqlite:///{name}.sqlite"))
    index = open_index(settings, tmp_path, create=True)
    save(index, *messages)
    state = state_of(index)
    index.close()
    return state


_numbers = itertools.count()


@given(data=st.data())
@hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_interleaving_with_repeats_in_any_batches_gives_the_same_rows(tmp_path: Path, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(_HISTORY), min_size=1, max_size=8))
    order = data.draw(st.permutations([*chosen, *chosen[:3]]))
    cut = data.draw(st.integers(0, len(order)))
    settings = Settings(index=IndexSettings(url=f"sqlite:///{next(_numbers)}.sqlite"))
    index = open_index(settings, tmp_path, create=True)
    try:
        save(index, *order[:cut])
        save(index, *order[cut:])
        assert state_of(index) == expected_after(tmp_path, sorted(chosen, key=_HISTORY.index), f"e{next(_numbers)}")
    finally:
        index.close()


def test_both_databases_hold_the_same_after_a_shuffled_history(index: Index, tmp_path: Path) -> None:
    shuffled = [*_HISTORY, *_HISTORY]
    random.Random(5).shuffle(shuffled)
    for start in range(0, len(shuffled), 4):
        save(index, *shuffled[start : start + 4])
    assert state_of(index) == expected_after(tmp_path, _HISTORY, "expected")


# ---- reading ----------------------------------------------------------------------------------------


def test_rows_come_in_order_of_arrival_and_can_be_filtered(index: Index) -> None:
    urls = [f"http://h{n % 3}.test/{n}" for n in range(1_200)]
    save(index, *(page(n + 1, url) for n, url in enumerate(urls)), failed(5_000, url="https://h1.test:8080/x"))
    assert {row.url for row in index.rows()} == {*urls, "https://h1.test:8080/x"}
    assert len(list(index.rows(limit=700))) == 700
    assert len(list(index.rows(limit=0))) == 0
    assert len(list(index.rows(host="h1.test"))) == 401
    assert [row.url for row in index.rows(host="h1.test", status=503)] == ["https://h1.test:8080/x"]
    assert list(index.rows(host="h_.test")) == []
    assert index.count() == {"2xx": 1_200, "5xx": 1}


def test_everything_known_of_one_url_is_found_by_its_key(index: Index) -> None:
    save(index, page(1), parsed(1, description="d", noindex=True, items=(b"one",)), failed(2, headers=(("a", "b"),)))
    detail = index.get(key_of(URL))
    assert detail is not None
    assert (detail.title, detail.description, detail.text, detail.verdict) == ("Title 1", "d", "hello", "ok")
    assert detail.outlinks == ("http://site.test/a", "http://site.test/b")
    assert (detail.noindex, detail.nofollow, detail.items) == (True, False, (b"one",))
    assert detail.headers[0] == ("content-type", "text/html; charset=utf-8")
    assert detail.answer_headers == (("a", "b"),)
    assert index.get(key_of("http://site.test/unknown")) is None


def test_what_to_ask_again_is_a_query(index: Index) -> None:
    save(index, page(1), failed(2, url="http://site.test/f"), redirected(3, url="http://site.test/r"))
    assert [(k.url, k.key, k.depth) for k in index.failed()] == [
        ("http://site.test/f", key_of("http://site.test/f"), 0)
    ]
    (known,) = index.known_bodies()
    assert (known.url, known.depth, known.referrer, known.etag) == (URL, 2, "http://site.test/", '"e1"')


def test_a_stored_page_keeps_the_spelling_and_headers_it_was_fetched_under(index: Index) -> None:
    spelling = "http://site.test/x?b=1&a=2"
    other = "http://site.test/x?a=2&b=1"
    save(index, page(1, spelling), redirected(2, url=other))
    (stored,) = index.stored()
    assert (stored.url, stored.version, stored.fetched_at) == (spelling, 1, page(1).fetched_at)
    assert stored.headers == page(1).headers
    assert only_row(index).url == other


# ---- what it refuses --------------------------------------------------------------------------------


def test_text_with_nul_is_stored_without_it(index: Index) -> None:
    save(index, page(1, etag="a\0b", headers=(("x", "a\0b"),)), parsed(1, title="nul\0nul", text="\0"))
    detail = index.get(key_of(URL))
    assert detail is not None
    assert (detail.row.etag, detail.title, detail.text) == ("ab", "nulnul", "")


def test_a_value_the_database_cannot_hold_is_poison_and_nothing_of_the_batch_is_saved(index: Index) -> None:
    with pytest.raises(Poison):
        save(index, page(1), page(2, "http://site.test/2", size=2**63))
    assert list(index.rows()) == []


@pytest.mark.parametrize(
    "message",
    [
        msgspec.structs.replace(page(1), key=b"short"),
        page(1, sha256="../../../../etc/passwd"),
        page(1, sha256="A" * 64),
        msgspec.structs.replace(page(1), body=b"not zstd"),
        page(1, fetched_at=float("nan")),
        page(1, fetched_at=1e300),
        page(-1),
        not_modified(-3),
        parsed(1, parsed_at=float("inf")),
    ],
)
def test_a_message_that_can_never_be_stored_is_poison(message: msgspec.Struct) -> None:
    with pytest.raises(Poison):
        handle(record(message))


# ---- opening ----------------------------------------------------------------------------------------


def test_reading_before_the_first_crawl_says_what_to_do(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no pages yet in .*: run headrace crawl first"):
        open_index(settings, tmp_path, create=False)
    assert list(tmp_path.iterdir()) == []


def test_an_index_is_opened_again(settings: Settings, tmp_path: Path) -> None:
    index = open_index(settings, tmp_path, create=True)
    save(index, page(1))
    index.close()
    for create in (True, False):
        again = open_index(settings, tmp_path, create=create)
        assert len(list(again.rows())) == 1
        again.close()


def test_an_index_of_a_newer_release_is_refused(settings: Settings, tmp_path: Path) -> None:
    index = open_index(settings, tmp_path, create=True)
    with index._engine.begin() as connection:
        connection.execute(text("UPDATE headrace_index SET value = 99"))
    index.close()
    with pytest.raises(TooNew, match="format 99"):
        open_index(settings, tmp_path, create=False)


def test_a_database_of_something_else_is_refused_and_left_alone(settings: Settings, tmp_path: Path) -> None:
    index = open_index(settings, tmp_path, create=True)
    with index._engine.begin() as connection:
        connection.execute(text("DROP TABLE headrace_index"))
    index.close()
    with pytest.raises(FatalError, match="not a headrace index"):
        open_index(settings, tmp_path, create=True)


def test_a_foreign_sqlite_file_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "index.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as foreign:
        foreign.execute("CREATE TABLE recipes (name)")
    before = path.read_bytes()
    for create in (True, False):
        with pytest.raises(FatalError, match="not a headrace index"):
            open_index(Settings(), tmp_path, create=create)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_an_export_reads_on_while_the_storer_writes(tmp_path: Path) -> None:
    writer = open_index(Settings(), tmp_path, create=True)
    save(writer, *(page(n, f"http://site.test/{n}") for n in range(1, 1_101)))
    reader = open_index(Settings(), tmp_path, create=False)
    rows = reader.rows()
    seen = [next(rows).url]
    save(writer, *(failed(n + 5_000, url=f"http://site.test/{n}") for n in range(1, 1_101)))
    seen += [row.url for row in rows]
    assert len(seen) == len(set(seen)) == 1_100
    reader.close()
    writer.close()


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "index.sqlite").write_bytes(b"a letter to my aunt\n" * 100)
    with pytest.raises(FatalError, match="is not a headrace index"):
        open_index(Settings(), tmp_path, create=True)
    assert (tmp_path / "index.sqlite").read_bytes().startswith(b"a letter")


@pytest.mark.parametrize("url", ["mysql://x/y", "nonsense", "sqlite://", "sqlite:///:memory:", "sqlite:///no/such/x"])
def test_an_address_that_can_never_work_is_a_usage_error(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"index\.url"):
        open_index(Settings(index=IndexSettings(url=url)), tmp_path, create=True)
