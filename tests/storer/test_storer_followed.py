"""Pages of which only the links are wanted: a row, and no body anywhere."""

import itertools
import json
from pathlib import Path

import msgspec
from prometheus_client import CollectorRegistry

from headrace_schemas.settings import Settings
from headrace_storer.archive import Archive, Batch
from headrace_storer.durable import NoSync
from headrace_storer.handler import handle
from headrace_storer.index import Index, open_index
from headrace_storer.metrics import Metrics
from headrace_storer.store import Store
from tests.storer.storer_messages import URL, failed, key_of, page, parsed, record


def save(index: Index, *messages: msgspec.Struct) -> None:
    index.save([change for message in messages for change in handle(record(message)).changes])


def test_a_followed_page_has_a_row_that_says_what_was_served_and_that_nothing_is_kept(index: Index) -> None:
    save(index, page(1, store=False, page_type="topic"), parsed(1))
    (row,) = index.rows()
    assert (row.http_status, row.page_type, row.content_type, row.content_bytes) == (200, "topic", "text/html", 14)
    assert (row.content_sha256, row.stored_path, row.etag, row.last_modified) == ("", "", "", "")
    assert json.loads(row.metadata) == {"followed_only": True, "title": "Title 1", "verdict": "ok"}


def test_a_followed_page_is_neither_replayed_nor_asked_for_again(index: Index) -> None:
    save(index, page(1, store=False), page(2, "http://site.test/kept"))
    assert [known.url for known in index.known_bodies()] == ["http://site.test/kept"]
    assert [stored.url for stored in index.stored()] == ["http://site.test/kept"]
    assert list(index.failed()) == []


def test_a_followed_page_that_is_later_stored_has_its_body(index: Index) -> None:
    save(index, page(1, store=False), page(2))
    (row,) = index.rows()
    assert (row.content_sha256, row.etag) == (page().sha256, '"e2"')
    assert "followed_only" not in json.loads(row.metadata)
    assert len(list(index.known_bodies())) == 1


def test_a_stored_page_that_is_later_only_followed_names_no_body_that_is_not_its_own(index: Index) -> None:
    save(index, page(1, body=b"old"), parsed(1), page(2, body=b"new and longer", store=False), parsed(2))
    detail = index.get(key_of(URL))
    assert detail is not None
    assert (detail.title, detail.row.content_bytes, detail.row.stored_path) == ("Title 2", 14, "")
    assert list(index.stored()) == []


def test_followed_and_stored_answers_in_any_order_give_the_same_row(tmp_path: Path) -> None:
    messages = [failed(1), page(2, store=False), page(3), failed(4), page(5, body=b"x", store=False)]
    rows: set[str] = set()
    for number, order in enumerate(itertools.permutations(messages)):
        folder = tmp_path / str(number)
        index = open_index(Settings(), folder, create=True)
        save(index, *order)
        rows.update(str(row) for row in index.rows())
        index.close()
    assert len(rows) == 1


def test_no_file_is_written_for_a_followed_page_and_none_is_counted(tmp_path: Path) -> None:
    archive = Archive(Store(tmp_path, NoSync()), lambda: open_index(Settings(), tmp_path, create=True), lambda: 0.0)
    batch = Batch([record(page(1, store=False)), record(page(2, "http://site.test/2", b"kept"), 1)])
    reads = archive.keep(batch)
    archive.close()
    assert [file.name.split(".")[0] for file in (tmp_path / "store/html").rglob("*.zst")] == [page(body=b"kept").sha256]
    registry = CollectorRegistry()
    Metrics(registry).kept(reads, batch.written, 0.1)
    assert registry.get_sample_value("crawler_pages_stored_total") == 1
    assert registry.get_sample_value("crawler_rows_total", {"kind": "page"}) == 2
