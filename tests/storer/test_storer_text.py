"""The text of a page: kept as it came, packed or not, and read as text; in an index of an older release, too."""

import contextlib
import sqlite3
from pathlib import Path

import pytest
import zstandard
from sqlalchemy import text

from headrace_schemas.errors import Poison
from headrace_schemas.settings import Settings
from headrace_storer.handler import handle
from headrace_storer.index import Index, open_index
from headrace_storer.views import PageDetail
from tests.storer.storer_messages import URL, key_of, page, parsed, record

OLD = Path(__file__).with_name("index_before_packed_text.sql")
LONG = "Überall ☃ steht viel Text. " * 2_000


def frame(of: str) -> bytes:
    return zstandard.compress(of.encode())


def save(index: Index, fetch_id: int, text: str = "", packed: bytes = b"") -> None:
    messages = (page(fetch_id), parsed(fetch_id, text=text, packed_text=packed))
    index.save([change for message in messages for change in handle(record(message)).changes])


def detail_of(index: Index) -> PageDetail:
    detail = index.get(key_of(URL))
    assert detail is not None
    return detail


def test_a_packed_text_lies_packed_and_is_read_as_text(index: Index) -> None:
    save(index, 1, packed=frame(LONG))
    assert detail_of(index).text == LONG
    with index._engine.connect() as connection:
        plain, packed = connection.execute(text("SELECT text, packed_text FROM parsed")).one()
    assert (plain, bytes(packed)) == ("", frame(LONG))


def test_a_text_replaces_the_one_before_whichever_of_them_was_packed(index: Index) -> None:
    for fetch_id, (plain, packed) in enumerate([("", "one"), ("two", ""), ("", "three"), ("", ""), ("", "four")], 1):
        save(index, fetch_id, plain, frame(packed) if packed else b"")
        assert detail_of(index).text == plain + packed


def test_a_packed_text_is_read_without_nul_as_one_that_is_not_packed(index: Index) -> None:
    save(index, 1, packed=frame("nul\0nul"))
    assert detail_of(index).text == "nulnul"


def test_what_is_no_frame_is_poison() -> None:
    with pytest.raises(Poison, match="packed text"):
        handle(record(parsed(1, packed_text=b"plain")))


def test_a_damaged_text_is_found_by_whoever_reads_it_and_by_nobody_else(index: Index) -> None:
    save(index, 1, packed=frame(LONG)[:-5])
    assert detail_of(index).title == "Title 1"
    with pytest.raises(Poison, match="packed text"):
        _ = detail_of(index).text


# ---- an index of a release that packed no text ------------------------------------------------------


@pytest.fixture
def old(settings: Settings, tmp_path: Path) -> Settings:
    """Names an index with one page, as an older release left it."""
    if not settings.index.url:
        with contextlib.closing(sqlite3.connect(tmp_path / "index.sqlite")) as file:
            file.executescript(OLD.read_text(encoding="utf-8"))
        return settings
    index = open_index(settings, tmp_path, create=True)
    save(index, 1, "hello")
    with index._engine.begin() as connection:
        connection.execute(text("ALTER TABLE parsed DROP COLUMN packed_text"))
    index.close()
    return settings


def test_an_older_index_is_read_as_it_is(old: Settings, tmp_path: Path) -> None:
    reader = open_index(old, tmp_path, create=False)
    assert [row.url for row in reader.rows()] == [URL]
    assert detail_of(reader).text == "hello"
    with reader._engine.connect() as connection:
        assert "packed_text" not in connection.execute(text("SELECT * FROM parsed")).keys()  # noqa: SIM118
    reader.close()


def test_an_older_index_is_completed_by_the_storer_and_keeps_its_pages(old: Settings, tmp_path: Path) -> None:
    reader = open_index(old, tmp_path, create=False)
    assert detail_of(reader).text == "hello"
    for fetch_id in (7, 8):
        storer = open_index(old, tmp_path, create=True)
        assert detail_of(storer).text == ("hello" if fetch_id == 7 else LONG)
        save(storer, fetch_id, packed=frame(LONG))
        storer.close()
    assert detail_of(reader).text == LONG  # one that was open all the while
    reader.close()


def test_an_older_index_is_completed_by_a_replay_that_writes_to_it(old: Settings, tmp_path: Path) -> None:
    replay = open_index(old, tmp_path, create=False)
    assert detail_of(replay).text == "hello"
    save(replay, 7, packed=frame(LONG))
    assert detail_of(replay).text == LONG
    replay.close()


def test_an_older_storer_goes_on_writing_beside_a_newer_one(old: Settings, tmp_path: Path) -> None:
    storer = open_index(old, tmp_path, create=True)
    save(storer, 7, packed=frame(LONG))
    with storer._engine.begin() as connection:  # it knows no other columns
        names = (
            "version, at, verdict, title, description, lang, encoding, canonical_url, text_sha256, noindex, nofollow"
        )
        names += ", outlink_count, text, outlinks, items"
        connection.execute(text("UPDATE parsed SET text = 'newer'"))
        other = f"INSERT INTO parsed (key, {names}) SELECT :key, {names} FROM parsed"
        connection.execute(text(other), {"key": key_of("http://site.test/other")})
    save(storer, 6, packed=frame("too late"))
    assert detail_of(storer).text == "newer"
    storer.close()
