"""The history of requests: which rows there are after which results, on SQLite and on PostgreSQL."""

import contextlib
import random
import sqlite3
import tracemalloc
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import text

from headrace_schemas.errors import Poison
from headrace_schemas.messages import Deferred, Failed, Fetched, FetchResult, Outcome, Phases, Refused, Robots
from headrace_schemas.settings import Settings
from headrace_storer.archive import Archive, Batch
from headrace_storer.durable import NoSync
from headrace_storer.handler import handle
from headrace_storer.index import Index, open_index
from headrace_storer.store import Store
from headrace_storer.views import Asked, Fetch
from tests.storer.storer_messages import URL, failed, key_of, page, parsed, record, redirected, result

OLD = Path(__file__).with_name("index_before_fetches.sql")
AT = 1_700_000_000.0


def asked(fetch_id: int, at: float, outcome: Outcome | None = None, url: str = URL, **more: Any) -> FetchResult:
    fields: dict[str, Any] = {"host": "site.test", "asked_at": at, "delay": 1.0}
    return result(fetch_id, outcome or Fetched(200, 14, page().sha256), url, **(fields | more))


def save(index: Index, *messages: msgspec.Struct) -> None:
    index.save([change for message in messages for change in handle(record(message)).changes])


def test_a_request_has_a_row_with_all_that_its_result_says(index: Index) -> None:
    more: dict[str, Any] = {"attempt": 2, "latency_ms": 30, "received": 900, "protocol": "HTTP/2", "proxy_id": "p1"}
    save(index, asked(7, AT, Failed("http", 503), delay=2.5, phases=Phases(11, 15, 4), **more))
    assert index.fetches(key_of(URL)) == [
        Fetch(
            at=AT,
            host="site.test",
            delay=2.5,
            kind="page",
            url=URL,
            fetch_id=7,
            attempt=2,
            status=503,
            outcome="failed:http",
            latency_ms=30,
            connect_ms=11,
            first_byte_ms=15,
            body_ms=4,
            received=900,
            protocol="HTTP/2",
            proxy_id="p1",
        )
    ]


@pytest.mark.parametrize(
    ("message", "word", "status"),
    [
        (asked(1, AT), "fetched", 200),
        (asked(1, AT, Fetched(304)), "fetched", 304),
        (redirected(1, host="site.test", asked_at=AT), "redirected", 301),
        (asked(1, AT, Robots(404), kind="robots"), "robots", 404),
        (asked(1, AT, Failed("timeout")), "failed:timeout", 0),
        (asked(1, AT, Refused("address")), "refused:address", 0),
        (asked(1, AT, Deferred(AT + 5, "shutdown")), "deferred:shutdown", 0),
    ],
)
def test_every_outcome_of_a_request_that_was_sent_has_its_word(message: FetchResult, word: str, status: int) -> None:
    (request,) = handle(record(message)).requests
    assert (request.outcome, request.status) == (word, status)


def test_what_was_never_sent_is_no_request(index: Index) -> None:
    save(index, asked(1, 0.0, Refused("address")), asked(2, 0.0, Deferred(AT, "wait")), failed(0, "host_dead", 0))
    assert index.fetches(key_of(URL)) == []
    assert list(index.hosts_asked()) == []


def test_a_result_of_a_release_that_did_not_say_when_it_asked_still_has_its_page(index: Index) -> None:
    save(index, failed(1))
    assert len(list(index.rows())) == 1
    assert list(index.hosts_asked()) == []


def test_a_robots_txt_is_in_the_history_and_not_among_the_pages(index: Index) -> None:
    robots = "http://site.test/robots.txt"
    save(index, asked(1, AT, Robots(200, b"User-agent: *"), robots, kind="robots"))
    assert list(index.rows()) == []
    assert [(fetch.kind, fetch.url) for fetch in index.fetches(key_of(robots))] == [("robots", robots)]


def test_each_redirect_of_a_robots_txt_is_a_request_to_its_own_host(index: Index) -> None:
    hops = (("site.test", AT), ("www.test", AT + 0.5))
    save(index, asked(1, AT + 1, Robots(200), "http://site.test/robots.txt", kind="robots", hops=hops, delay=1.0))
    assert [entry[:4] for entry in index.hosts_asked()] == [
        ("site.test", AT, 1.0, "hop"),
        ("site.test", AT + 1, 1.0, "robots"),
        ("www.test", AT + 0.5, 0.0, "hop"),
    ]


def test_a_hop_that_led_nowhere_was_a_request_all_the_same(index: Index) -> None:
    save(index, asked(1, 0.0, Refused("address"), kind="robots", hops=(("site.test", AT),)))
    assert [(entry.kind, entry.at) for entry in index.hosts_asked()] == [("hop", AT)]


def test_a_message_read_twice_is_one_request_and_a_task_fetched_twice_is_two(index: Index) -> None:
    once, again = asked(3, AT), asked(3, AT + 10)
    save(index, once, once)
    save(index, once, again)
    assert [fetch.at for fetch in index.fetches(key_of(URL))] == [AT, AT + 10]


def test_the_history_of_a_url_is_oldest_first_and_bounded(index: Index) -> None:
    others = [asked(n, AT + n, url=f"http://site.test/{n}") for n in range(1, 20)]
    mine = [asked(n, AT + n) for n in range(100, 130)]
    shuffled = [*others, *mine]
    random.Random(3).shuffle(shuffled)
    save(index, *shuffled)
    assert [fetch.fetch_id for fetch in index.fetches(key_of(URL))] == list(range(100, 130))
    assert [fetch.fetch_id for fetch in index.fetches(key_of(URL), limit=10)] == list(range(120, 130))


def test_hosts_are_read_one_after_the_other_each_in_order_of_time(index: Index) -> None:
    requests = [
        asked(n, AT + (n * 7 % 5_000), url=f"http://h{n % 3}.test/{n}", host=f"h{n % 3}.test") for n in range(5_000)
    ]
    for start in range(0, 5_000, 500):
        save(index, *requests[start : start + 500])
    read = list(index.hosts_asked())
    assert sorted(entry.url for entry in read) == sorted(request.url for request in requests)
    assert [entry[:2] for entry in read] == sorted(entry[:2] for entry in read)
    assert {entry.host for entry in index.hosts_asked(host="h1.test")} == {"h1.test"}
    late = list(index.hosts_asked(host="h1.test", since=AT + 4_000))
    assert late == [entry for entry in read if entry.host == "h1.test" and entry.at >= AT + 4_000]


def test_requests_of_the_same_moment_are_all_read(index: Index) -> None:
    save(index, *(asked(n, AT, url=f"http://site.test/{n}") for n in range(4_500)))
    assert len({entry.url for entry in index.hosts_asked()}) == 4_500


def test_reading_the_history_holds_neither_all_of_it_nor_the_writer(tmp_path: Path) -> None:
    writer = open_index(Settings(), tmp_path, create=True)
    save(writer, *(asked(n, AT + n, url=f"http://site.test/{n}") for n in range(20_000)))
    reader = open_index(Settings(), tmp_path, create=False)
    tracemalloc.start()
    try:
        entries = reader.hosts_asked()
        next(entries)
        # A snapshot still open would make this wait for the reader, and fail.
        with contextlib.closing(sqlite3.connect(tmp_path / "index.sqlite", timeout=0.1)) as other:
            assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        assert sum(1 for _ in entries) == 19_999
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        reader.close()
        writer.close()
    assert peak < 4_000_000  # all of them at once take 10 MB


def test_a_request_that_the_database_refuses_is_a_dead_letter_and_the_others_are_kept(
    settings: Settings, tmp_path: Path
) -> None:
    archive = Archive(Store(tmp_path, NoSync()), lambda: open_index(settings, tmp_path, create=True), lambda: 0.0)
    bad = asked(2, AT + 1, received=2**63, url="http://site.test/bad")
    messages = [asked(1, AT), bad, parsed(1), asked(3, AT + 2, Failed("http", 500), "http://site.test/3")]
    reads = archive.keep(Batch([record(message, n) for n, message in enumerate(messages)]))
    assert [isinstance(read, Poison) for read in reads] == [False, True, False, False]
    assert [entry.at for entry in archive.open().hosts_asked()] == [AT, AT + 2]
    archive.close()


@pytest.mark.parametrize(
    "message",
    [
        asked(1, float("nan")),
        asked(1, -5.0),
        asked(1, AT, delay=float("nan")),
        asked(1, AT, hops=(("site.test", float("inf")),)),
        msgspec.structs.replace(asked(1, AT), key=b"short"),
        asked(-1, AT),
    ],
)
def test_a_request_that_can_never_be_stored_is_poison(message: FetchResult) -> None:
    with pytest.raises(Poison):
        handle(record(message))


def test_text_with_nul_is_kept_without_it(index: Index) -> None:
    save(index, asked(1, AT, Failed("ht\0tp"), host="si\0te.test", protocol="\0"))
    (fetch,) = index.fetches(key_of(URL))
    assert (fetch.outcome, fetch.host, fetch.protocol) == ("failed:http", "site.test", "")


# ---- an index of a release that kept no history -----------------------------------------------------


def test_an_index_without_a_history_is_read_as_it_is(tmp_path: Path) -> None:
    _make_old(tmp_path)
    reader = open_index(Settings(), tmp_path, create=False)
    assert [row.url for row in reader.rows()] == [URL]
    assert reader.fetches(key_of(URL)) == []
    assert list(reader.hosts_asked()) == []
    reader.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "index.sqlite")) as file:
        assert not file.execute("SELECT 1 FROM sqlite_master WHERE name = 'fetches'").fetchall()


def test_an_index_without_a_history_gets_one_from_the_storer_and_keeps_its_pages(tmp_path: Path) -> None:
    _make_old(tmp_path)
    storer = open_index(Settings(), tmp_path, create=True)
    save(storer, asked(9, AT))
    detail = storer.get(key_of(URL))
    assert detail is not None
    assert (detail.title, detail.row.content_bytes) == ("Title 1", 14)
    assert len(list(storer.known_bodies())) == len(list(storer.stored())) == 1
    assert list(storer.hosts_asked()) == [Asked("site.test", AT, 1.0, "page", URL)]
    storer.close()


def test_the_history_is_added_on_either_database(settings: Settings, tmp_path: Path) -> None:
    index = open_index(settings, tmp_path, create=True)
    with index._engine.begin() as connection:
        connection.execute(text("DROP TABLE fetches"))
    index.close()
    reader = open_index(settings, tmp_path, create=False)
    assert list(reader.hosts_asked()) == []
    reader.close()
    for _ in range(2):
        storer = open_index(settings, tmp_path, create=True)
        save(storer, asked(9, AT))
        assert len(storer.fetches(key_of(URL))) == 1
        storer.close()


def _make_old(workspace: Path) -> None:
    with contextlib.closing(sqlite3.connect(workspace / "index.sqlite")) as file:
        file.executescript(OLD.read_text(encoding="utf-8"))
