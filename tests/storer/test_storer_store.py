"""Bodies on the disk."""

import hashlib
import math
import os
import tracemalloc
from pathlib import Path
from typing import ClassVar

import pytest
import zstandard

from headrace_schemas.errors import Poison, Unavailable
from headrace_storer.durable import FileSync, FileSystemSync, NoSync, Syncing, best_sync
from headrace_storer.handler import Body
from headrace_storer.store import Store, path_of


def body_of(content: bytes) -> Body:
    return Body(hashlib.sha256(content).hexdigest(), zstandard.compress(content))


def files_of(workspace: Path) -> list[Path]:
    return [path for path in workspace.rglob("*") if path.is_file()]


@pytest.fixture(params=[NoSync, FileSync, best_sync])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    syncing: Syncing = request.param()
    opened = Store(tmp_path, syncing)
    opened.open(abandoned_before=math.inf)
    return opened


def test_a_body_lies_under_its_hash_and_reads_back(store: Store, tmp_path: Path) -> None:
    body = body_of(b"<p>hello")
    assert store.write_batch([body]) == len(body.frame)
    path = tmp_path / "store" / "html" / body.sha256[:2] / body.sha256[2:4] / f"{body.sha256}.html.zst"
    assert path.read_bytes() == body.frame
    assert str(path.relative_to(tmp_path)) == store.path_of(body.sha256)
    assert store.read(body.sha256) == store.read(store.path_of(body.sha256)) == b"<p>hello"


def test_equal_bodies_are_written_once(store: Store, tmp_path: Path) -> None:
    body = body_of(b"same")
    assert store.write_batch([body, body]) == len(body.frame)
    before = os.stat(tmp_path / store.path_of(body.sha256))
    assert store.write_batch([body]) == 0
    assert os.stat(tmp_path / store.path_of(body.sha256)).st_ino == before.st_ino
    assert len(files_of(tmp_path)) == 1


def test_a_body_that_a_power_cut_left_empty_is_written_anew(store: Store, tmp_path: Path) -> None:
    body = body_of(b"whole")
    store.write_batch([body])
    (tmp_path / store.path_of(body.sha256)).write_bytes(b"")
    store.write_batch([body])
    assert store.read(body.sha256) == b"whole"


def test_folders_deleted_under_the_store_are_made_again(store: Store, tmp_path: Path) -> None:
    body = body_of(b"x")
    store.write_batch([body])
    path = tmp_path / store.path_of(body.sha256)
    path.unlink()
    path.parent.rmdir()
    with pytest.raises(Unavailable, match="ENOENT"):
        store.write_batch([body])
    store.write_batch([body])
    assert store.read(body.sha256) == b"x"


def test_a_folder_that_a_killed_process_made_is_synced_by_the_next_one(tmp_path: Path) -> None:
    class Noting(NoSync):
        made: ClassVar[list[str]] = []

        def folder_made(self, folder: str) -> None:
            self.made.append(folder)

    body = body_of(b"x")
    folder = (tmp_path / path_of(body.sha256)).parent
    folder.mkdir(parents=True)
    store = Store(tmp_path, Noting())
    store.open(abandoned_before=math.inf)
    assert store.write_batch([body]) == len(body.frame)
    assert Noting.made == [str(folder)]


def test_what_is_remembered_of_the_folders_does_not_grow_with_them(tmp_path: Path) -> None:
    store = Store(tmp_path, NoSync())
    store.open(abandoned_before=math.inf)
    store.write_batch([body_of(b"first")])
    tracemalloc.start()
    try:
        for start in range(0, 3_000, 100):
            store.write_batch([body_of(b"%d" % number) for number in range(start, start + 100)])
        kept = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert kept < 100_000  # as paths they took 500 KB


def test_leftovers_of_a_killed_process_are_deleted_at_the_start_if_old_enough(store: Store, tmp_path: Path) -> None:
    old, new = tmp_path / "store/tmp/dead-1", tmp_path / "store/tmp/alive-1"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (1_000, 1_000))
    assert store.open(abandoned_before=2_000) == 1
    assert files_of(tmp_path) == [new]


def test_a_damaged_or_missing_body_is_named_as_such(store: Store, tmp_path: Path) -> None:
    body = body_of(b"content")
    with pytest.raises(Poison, match="is missing"):
        store.read(body.sha256)
    store.write_batch([body])
    path = tmp_path / store.path_of(body.sha256)
    path.write_bytes(zstandard.compress(b"other"))
    with pytest.raises(Poison, match="another hash"):
        store.read(body.sha256)
    path.write_bytes(b"no zstd")
    with pytest.raises(Poison, match="is damaged"):
        store.read(body.sha256)


@pytest.mark.parametrize("name", ["", "../secret", "store/html/aa/bb/../../../../etc/passwd", "g" * 64])
def test_nothing_outside_the_store_is_read(store: Store, name: str) -> None:
    with pytest.raises(Poison, match="neither a SHA-256 nor a path"):
        store.read(name)


def test_a_body_cut_short_is_no_body(store: Store, tmp_path: Path) -> None:
    body = body_of(os.urandom(10_000))
    store.write_batch([body])
    path = tmp_path / store.path_of(body.sha256)
    path.write_bytes(body.frame[:-100])
    with pytest.raises(Poison):
        store.read(body.sha256)


def test_syncfs_is_used_where_the_system_has_it() -> None:
    assert isinstance(best_sync(), FileSystemSync)
