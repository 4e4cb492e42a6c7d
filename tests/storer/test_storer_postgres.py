"""What only a server shows: several storers at once, its limits, many rows; and that it holds what SQLite holds."""

import secrets
import threading
import tracemalloc
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from io import StringIO
from multiprocessing import get_context
from pathlib import Path

import msgspec
import psycopg
import pytest

from headrace_schemas.errors import Poison
from headrace_schemas.messages import Fetched
from headrace_schemas.settings import IndexSettings, Settings
from headrace_storer.changes import Change
from headrace_storer.export import Format, write_rows
from headrace_storer.handler import handle
from headrace_storer.index import Index, open_index
from tests.storer.storer_messages import failed, key_of, page, parsed, record, redirected, result

ODD = "nul:\0 quote:' back:\\ percent:%s {} astral:\U0001f577 end"


def changes_of(number: int, fetch_id: int = 1) -> tuple[Change, ...]:
    url = f"http://site.test/{number}"
    asked = result(fetch_id, Fetched(200), url, asked_at=1_700_000_000.0 + fetch_id, host="site.test")
    messages = (page(fetch_id, url), parsed(fetch_id, url), asked)
    return tuple(change for message in messages for change in handle(record(message)).changes)


def test_storers_that_start_together_make_the_tables_once(postgres_url: str, tmp_path: Path) -> None:
    settings = Settings(index=IndexSettings(url=postgres_url))
    together = threading.Barrier(8)

    def start(_: int) -> None:
        together.wait(30)
        open_index(settings, tmp_path, create=True).close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(start, range(8)))
    open_index(settings, tmp_path, create=False).close()


def _store(url: str, numbers: Sequence[int], rounds: int) -> None:
    index = open_index(Settings(index=IndexSettings(url=url)), Path("unused"), create=True)
    for fetch_id in range(1, rounds + 1):
        index.save([change for number in numbers for change in changes_of(number, fetch_id)])
    index.close()


@pytest.mark.parametrize("shared", [False, True], ids=["each its own rows", "the same rows in opposite order"])
def test_two_processes_write_at_once_and_never_wait_for_each_other_in_a_circle(shared: bool, postgres_url: str) -> None:
    """The second is what a rebalance can make of two storers, for as long as one believes that it owns what it lost."""
    first = list(range(300))
    second = first[::-1] if shared else list(range(300, 600))
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        running = [pool.submit(_store, postgres_url, numbers, 5) for numbers in (first, second)]
        for future in running:
            future.result(100)  # a deadlock would be an error of one of them
    index = open_index(Settings(index=IndexSettings(url=postgres_url)), Path("unused"), create=False)
    rows = list(index.rows())
    assert sorted(row.url for row in rows) == sorted(f"http://site.test/{n}" for n in {*first, *second})
    assert {detail.version for n in first if (detail := index.get(key_of(f"http://site.test/{n}")))} == {5}
    assert len(list(index.hosts_asked())) == 5 * len({*first, *second})
    index.close()


def test_a_storer_lost_in_the_middle_of_a_transaction_lets_go_of_its_rows(postgres_url: str, tmp_path: Path) -> None:
    index = open_index(Settings(index=IndexSettings(url=postgres_url)), tmp_path, create=True)
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute(
            "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "NEW.title := current_setting('idle_in_transaction_session_timeout'); RETURN NEW; END $$"
        )
        other.execute("CREATE TRIGGER tell BEFORE INSERT ON parsed FOR EACH ROW EXECUTE FUNCTION tell()")
    index.save(changes_of(1))
    detail = index.get(key_of("http://site.test/1"))
    index.close()
    assert detail is not None
    assert detail.title == "1min"


def test_both_databases_give_back_the_same_of_what_is_odd(index: Index) -> None:
    long_url = "http://site.test/" + "x" * 60_000
    headers = (("x-odd", ODD), ("x-big", "h" * 100_000))
    for change in (
        *handle(record(page(1, long_url, etag=ODD, content_type=ODD, headers=headers))).changes,
        *handle(record(parsed(1, long_url, title=ODD, text=ODD * 10_000, outlinks=(long_url,) * 1_000))).changes,
        *handle(record(failed(1, ODD, 599, "http://site.test/f", chain=(long_url,) * 5))).changes,
    ):
        index.save([change])
    clean = ODD.replace("\0", "")
    detail = index.get(key_of(long_url))
    assert detail is not None
    assert (detail.row.url, detail.row.etag, detail.title, detail.text) == (long_url, clean, clean, clean * 10_000)
    assert detail.headers == headers
    assert detail.outlinks == (long_url,) * 1_000
    other = index.get(key_of("http://site.test/f"))
    assert other is not None
    assert long_url in other.row.metadata
    assert "astral" in other.row.metadata


@pytest.mark.parametrize("form", ["csv", "jsonl", "table"])
def test_an_export_is_the_same_byte_for_byte_from_both(form: Format, postgres_url: str, tmp_path: Path) -> None:
    written = []
    for url in ("", postgres_url):
        opened = open_index(Settings(index=IndexSettings(url=url)), tmp_path, create=True)
        for n in range(30):
            opened.save(changes_of(n))
        opened.save(handle(record(parsed(2, "http://site.test/3", title=ODD, description='a,b;\n"c"'))).changes)
        opened.save(handle(record(failed(2, "http", 503, "http://site.test/4", attempt=3))).changes)
        opened.save(handle(record(redirected(1, url="http://site.test/moved"))).changes)
        out = StringIO()
        write_rows(opened.rows(), form, out)
        written.append(out.getvalue())
        opened.close()
    assert written[0] == written[1]
    assert len(written[0]) > 1_000


def test_what_is_past_a_limit_of_the_server_is_refused_and_not_waited_for(postgres_url: str, tmp_path: Path) -> None:
    """A row of an index has at most 2,704 bytes there: waiting would never end. SQLite takes it."""
    host = secrets.token_hex(4_000)
    refused = handle(record(result(1, Fetched(200), asked_at=1.0, host=host))).changes
    index = open_index(Settings(index=IndexSettings(url=postgres_url)), tmp_path, create=True)
    with pytest.raises(Poison, match="exceeds"):
        index.save(refused)
    index.close()


def test_a_surrogate_that_no_encoding_has_is_refused(index: Index) -> None:
    (change,) = handle(record(page(1))).changes
    with pytest.raises(Poison):
        index.save([msgspec.structs.replace(change, content_type="\ud800")])
    assert list(index.rows()) == []


def test_hosts_come_in_one_order_on_both(index: Index) -> None:
    """That of their bytes: a server's own locale would put a dot or a hyphen elsewhere."""
    hosts = ["a-b.test", "a.test", "ab.test", "a_c.test", "b.test", "ac.test", "1.test", "xn--a.test"]
    for n, host in enumerate(hosts):
        index.save(handle(record(result(n + 1, Fetched(200), f"http://{host}/", asked_at=1.0 + n, host=host))).changes)
    assert [asked.host for asked in index.hosts_asked()] == sorted(hosts)


@pytest.mark.parametrize("read", [Index.rows, Index.hosts_asked])
def test_many_rows_are_read_in_flat_memory(read: Callable[[Index], object], postgres_url: str, tmp_path: Path) -> None:
    index = open_index(Settings(index=IndexSettings(url=postgres_url)), tmp_path, create=True)
    index.save([change for n in range(20) for change in changes_of(n)])
    _multiply(postgres_url, 8_000)
    tracemalloc.start()
    count = sum(1 for _ in read(index))  # type: ignore[attr-defined,misc]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    index.close()
    assert count == 8_020
    assert peak < 6_000_000, f"{peak:,} bytes"


def _multiply(url: str, count: int) -> None:
    """As many more rows of one page, made by the server."""
    with psycopg.connect(url) as connection:
        for table in ("pages", "fetches"):
            names = "SELECT column_name FROM information_schema.columns WHERE table_name = %s AND column_name <> 'id'"
            columns = [str(row[0]) for row in connection.execute(names, [table])]
            values = ["decode(md5(n::text), 'hex')" if name == "key" else name for name in columns]
            into, taken = ", ".join(columns), ", ".join(values)
            one = f"(SELECT * FROM {table} LIMIT 1)"
            more = f"INSERT INTO {table} ({into}) SELECT {taken} FROM {one} t, generate_series(1, {count}) n"
            connection.execute(more.encode())
