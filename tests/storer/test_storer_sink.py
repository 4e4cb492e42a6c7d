"""Records in, disk, offsets: what passes when, and what happens when disk or index fail."""

import asyncio
import logging
import resource
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace_schemas import codec
from headrace_schemas.errors import TooNew, Unavailable
from headrace_schemas.messages import DeadLetter
from headrace_schemas.settings import Settings
from headrace_storer.archive import save_all_but_refused
from headrace_storer.changes import Change
from headrace_storer.durable import NoSync
from headrace_storer.handler import Body, handle
from headrace_storer.index import Index, open_index
from headrace_storer.store import Store
from tests.storer.storer_lane import ListLane
from tests.storer.storer_messages import page, raw, record
from tests.storer.storer_parts import Storer, records_of, site, until


@contextmanager
def files_no_longer_than(size: int) -> Iterator[None]:
    """The kernel refuses every write past `size` bytes, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_every_record_passes_once_its_body_and_row_are_there(settings: Settings, tmp_path: Path) -> None:
    lane = ListLane(records_of(site(150)))
    async with Storer(settings, tmp_path) as storer:
        await storer.serve(lane)
        assert storer.sink.busy == 0
    assert sorted(r.offset for r in lane.done) == list(range(300))
    assert len(storer.urls()) == 150
    assert len(list((tmp_path / "store/html").rglob("*.html.zst"))) == 150
    assert storer.value("crawler_pages_stored_total") == 150
    assert storer.value("crawler_rows_total", kind="page") == storer.value("crawler_rows_total", kind="parsed") == 150
    assert storer.value("crawler_store_bytes_total") > 0
    assert storer.value("crawler_store_batch_seconds_count") >= 1


async def test_many_lanes_share_one_sink(tmp_path: Path) -> None:
    messages = site(90)
    lanes = [ListLane(records_of(messages[start::6])) for start in range(6)]
    async with Storer(Settings(), tmp_path) as storer:
        await asyncio.gather(*(storer.serve(lane) for lane in lanes))
        batches = storer.value("crawler_store_batch_seconds_count")
    assert sum(len(lane.done) for lane in lanes) == 180
    assert len(storer.urls()) == 90
    assert batches < 30


async def test_poison_is_buried_and_passed_over(tmp_path: Path) -> None:
    bad = [raw(b"garbage", offset=0), record(page(1, sha256="no hash"), 1), raw(b"", "fetch.results", 2)]
    lane = ListLane([*bad, record(page(3), 3)])
    async with Storer(Settings(), tmp_path) as storer:
        await storer.serve(lane)
    assert len(lane.done) == 4
    letters: list[DeadLetter] = [codec.decode("dead.letters", send.value) for send in lane.sends]
    assert [(letter.offset, letter.value, letter.group) for letter in letters] == [
        (r.offset, r.value, "storer") for r in bad
    ]
    assert len(storer.urls()) == 1


async def test_a_message_of_a_newer_release_ends_the_lane_and_is_not_passed(tmp_path: Path) -> None:
    value = bytearray(codec.encode(page(1)))
    value[1] = codec.VERSION + 1
    lane = ListLane([raw(bytes(value))])
    async with Storer(Settings(), tmp_path) as storer:
        with pytest.raises(TooNew):
            await storer.serve(lane)
    assert lane.done == []


async def test_the_one_row_that_the_index_refuses_is_buried_and_the_rest_is_stored(
    settings: Settings, tmp_path: Path
) -> None:
    messages = site(40)
    messages[17] = page(9, "http://site.test/x", size=2**63)
    lane = ListLane(records_of(messages))
    async with Storer(settings, tmp_path) as storer:
        await storer.serve(lane)
    assert len(lane.done) == 80
    (letter,) = [codec.decode("dead.letters", send.value) for send in lane.sends]
    assert letter.offset == 17
    assert len(storer.urls()) == 40


def test_bisecting_asks_logarithmically_often(index: Index) -> None:
    changes: list[Change] = []
    for n in range(1, 257):
        change = handle(record(page(n, f"http://s.test/{n}", size=2**63 if n == 77 else 1))).change
        assert change is not None
        changes.append(change)
    calls: list[int] = []

    def save(part: Sequence[Change]) -> None:
        calls.append(len(part))
        index.save(part)

    refused = save_all_but_refused(save, changes)
    assert list(refused) == [id(changes[76])]
    assert len(calls) <= 2 * 8 + 1
    assert len(list(index.rows())) == 255


# ---- dependencies that fail -------------------------------------------------------------------------


async def test_a_locked_index_is_waited_for(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    async with Storer(Settings(), tmp_path) as storer:
        blocker = sqlite3.connect(tmp_path / "index.sqlite", isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        lane = ListLane(records_of(site(5)))
        serving = asyncio.create_task(storer.serve(lane))
        await until(lambda: storer.value("crawler_index_retries_total") >= 2)
        assert lane.done == []
        assert "locked" in storer.sink.status()["trouble"]
        assert storer.sink.busy == 10
        blocker.execute("ROLLBACK")
        blocker.close()
        await serving
        assert storer.sink.status()["trouble"] == ""
    assert (len(lane.done), len(storer.urls())) == (10, 5)
    assert [r.levelname for r in caplog.records if "storing" in r.message] == ["ERROR", "WARNING"]


async def test_a_disk_that_takes_no_more_bytes_is_waited_for(tmp_path: Path) -> None:
    async with Storer(Settings(), tmp_path) as storer:
        lane = ListLane(records_of(site(5)))
        with files_no_longer_than(10):
            serving = asyncio.create_task(storer.serve(lane))
            await until(lambda: storer.value("crawler_index_retries_total") >= 2)
            assert "EFBIG" in storer.sink.status()["trouble"]
            assert lane.done == []
        await serving
    assert (len(lane.done), len(storer.urls())) == (10, 5)
    assert list((tmp_path / "store/tmp").iterdir()) == []


def test_a_read_only_index_is_unavailable_and_works_again_afterwards(tmp_path: Path) -> None:
    index = open_index(Settings(), tmp_path, create=True)
    change = handle(record(page(1))).change
    assert change is not None
    with index._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only=ON")
    with pytest.raises(Unavailable, match="readonly"):
        index.save([change])
    index.save([change])
    assert len(list(index.rows())) == 1
    index.close()


async def test_a_lane_revoked_during_an_outage_is_let_go_at_its_deadline(tmp_path: Path) -> None:
    async with Storer(Settings(), tmp_path) as storer:
        blocker = sqlite3.connect(tmp_path / "index.sqlite", isolation_level=None)
        blocker.execute("BEGIN IMMEDIATE")
        lane = ListLane(records_of(site(200)))
        serving = asyncio.create_task(storer.serve(lane))
        await until(lambda: storer.sink.busy > 0)
        lane.stop(0.1)
        await serving
        assert lane.done == []
        blocker.execute("ROLLBACK")
        blocker.close()
        again = ListLane(records_of(site(200)))
        await storer.serve(again)
    assert (len(again.done), len(storer.urls())) == (400, 200)


async def test_a_defect_ends_the_lanes_instead_of_hanging_them(tmp_path: Path) -> None:
    class Defective(Store):
        def write_batch(self, bodies: object) -> int:
            raise ZeroDivisionError

    async with Storer(Settings(), tmp_path, Defective(tmp_path, NoSync())) as storer:
        lane = ListLane(records_of(site(5)))
        with pytest.raises(ZeroDivisionError):
            await storer.serve(lane)
        with pytest.raises(ZeroDivisionError):
            await storer.serve(ListLane(records_of(site(5))))
    assert lane.done == []


def test_a_body_is_named_by_its_hash() -> None:
    job = handle(record(page(1)))
    assert job.body == Body(page(1).sha256, page(1).body)
