"""One RocksDB: opened with the options that were measured, its errors translated, its lock really released."""

import gc
import re
from pathlib import Path
from typing import Any

from rocksdict import (
    BlockBasedOptions,
    Cache,
    ColumnFamily,
    DataBlockIndexType,
    DBCompressionType,
    Options,
    Rdict,
    WriteBatch,
)

from headrace_runtime.streams.embedded import layout
from headrace_schemas.errors import FatalError, HeadraceError, LayoutMismatch, TooNew, Unavailable, WorkspaceBusy

MIB = 1 << 20


class Database:
    """The database and its column families. Whoever reads goes through these attributes and keeps none of them: a live
    handle, or an iterator, holds the lock of a closed database."""

    def __init__(self, path: Path, rows: Rdict) -> None:
        self.path = path
        self.rows = rows
        self.log: Rdict = rows.get_column_family(layout.LOG)
        self.state: Rdict = rows.get_column_family(layout.STATE)
        self._into_log: ColumnFamily = rows.get_column_family_handle(layout.LOG)
        self._into_state: ColumnFamily = rows.get_column_family_handle(layout.STATE)
        self.broken: HeadraceError | None = None
        """Set by a failed write: what is on disk is known only to the next open."""

    @classmethod
    def open(cls, path: Path, *, partitions: int, memtable: int = 64 * MIB, write_ahead: int = 256 * MIB) -> "Database":
        """Nothing is written unless the database is new or fits. `memtable`: bytes of records gathered before they
        become a file; those read by everyone before that never become one. `write_ahead`: bytes of write-ahead log;
        without that cap a small idle family pins it (1.2 GB was seen)."""
        try:
            path.mkdir(parents=True, exist_ok=True)
            if (path / "CURRENT").exists():
                unknown = set(Rdict.list_cf(str(path))) - {layout.DEFAULT, layout.LOG, layout.STATE}
                if unknown:
                    raise TooNew(
                        f"the log at {path} has parts this release does not know: {', '.join(sorted(unknown))}"
                    )
            options = _options(16 * MIB)
            options.set_max_total_wal_size(write_ahead)
            database = cls(path, Rdict(str(path), options, _families(memtable)))
        except HeadraceError:
            raise
        except Exception as error:  # rocksdict raises plain Exception
            raise translated(error, path, "open") from None
        try:
            database._check(partitions)
        except BaseException:
            database.close()
            raise
        return database

    def _check(self, partitions: int) -> None:
        found = self.rows.get([layout.FORMAT_KEY, layout.PARTITIONS_KEY])
        assert isinstance(found, list)
        form, made_with = found
        if form is None:
            self._create(partitions)
            return
        if layout.unpack_number(form) > layout.FORMAT:
            raise TooNew(
                f"the log at {self.path} has format {layout.unpack_number(form)};"
                f" this release reads up to {layout.FORMAT}: upgrade it"
            )
        if layout.unpack_number(made_with) != partitions:
            raise LayoutMismatch(
                f"the log at {self.path} was made with {layout.unpack_number(made_with)} partitions and is opened with"
                f" {partitions}: the number is fixed for its life"
            )

    def _create(self, partitions: int) -> None:
        batch = self.batch()
        batch.put(layout.FORMAT_KEY, layout.pack_number(layout.FORMAT))
        batch.put(layout.PARTITIONS_KEY, layout.pack_number(partitions))
        self.write(batch)
        self.sync()

    # ---- writing: one batch is one unit of work ---------------------------------------------------

    def batch(self) -> WriteBatch:
        """Takes rows of the default family as it is; records and state through the two methods below."""
        if self.broken is not None:
            raise self.broken
        return WriteBatch(raw_mode=True)

    def put_record(self, batch: WriteBatch, key: bytes, value: bytes) -> None:
        batch.put(key, value, self._into_log)

    def delete_records(self, batch: WriteBatch, first: bytes, behind: bytes) -> None:
        batch.delete_range(first, behind, self._into_log)

    def write_state(self, batch: WriteBatch, prefix: bytes, writes: dict[bytes, bytes | None]) -> None:
        family = self._into_state
        for key, value in writes.items():
            if value is None:
                batch.delete(prefix + key, family)
            else:
                batch.put(prefix + key, value, family)

    def write(self, batch: WriteBatch) -> None:
        """A killed process loses nothing that was written; a power cut, what was not `sync`ed since."""
        try:
            self.rows.write(batch)
        except Exception as error:
            self.broken = translated(error, self.path, "write to")
            raise self.broken from None

    def sync(self) -> None:
        """May be called from another thread: it waits for the disk without holding the interpreter."""
        try:
            self.rows.flush_wal(True)
        except Exception as error:
            self.broken = translated(error, self.path, "write to")
            raise self.broken from None

    def close(self) -> None:
        rows = self.__dict__.pop("rows", None)
        if rows is None:
            return
        for name in ("log", "state", "_into_log", "_into_state"):
            self.__dict__.pop(name, None)
        try:
            rows.close()
        except Exception as error:
            self.broken = self.broken or translated(error, self.path, "close")
        finally:
            self.broken = self.broken or FatalError(f"the log at {self.path} is closed")
            del rows
            gc.collect()  # a forgotten iterator in a reference cycle would hold the lock


def translated(error: Exception, path: Path, verb: str) -> HeadraceError:
    """One line for a user; what RocksDB said is in it."""
    said = re.sub(r"\s+", " ", str(error)).strip()[:300]
    if isinstance(error, OSError):
        said = error.strerror or said
    lowered = said.lower()
    if "lock hold by current process" in lowered or "lock file" in lowered:
        return WorkspaceBusy(f"the log at {path} is in use by another process")
    if "no space left" in lowered and verb == "open":
        return Unavailable(f"cannot open the log at {path}: no space left on the disk")
    if "corruption" in lowered or "inconsisten" in lowered:
        return FatalError(f"the log at {path} is damaged: {said}")
    return FatalError(f"cannot {verb} the log at {path}: {said}")


def _families(memtable: int) -> dict[str, Options]:
    """Given at every open: without them a family gets the default cache, and no blob files."""
    return {layout.DEFAULT: _options(16 * MIB), layout.LOG: _log_options(memtable), layout.STATE: _state_options()}


def _options(memtable: int) -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_write_buffer_size(memtable)
    options.set_max_background_jobs(2)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(1 * MIB)
    return options


def _log_options(memtable: int) -> Options:
    options = _options(memtable)
    options.set_enable_blob_files(True)
    options.set_min_blob_size(1024)
    options.set_blob_compression_type(DBCompressionType.none())  # bodies are zstd frames already
    options.set_blob_file_size(64 * MIB)
    options.set_enable_blob_gc(True)
    options.set_level_zero_file_num_compaction_trigger(2)  # its files hold mostly what was read since: drop them early
    return options


def _state_options() -> Options:
    # Small: a look-up in a memtable of random keys costs twice one in a file of them (11 µs at 64 MB, 6 at 16).
    options = _options(16 * MIB)
    options.set_level_zero_file_num_compaction_trigger(2)
    table = BlockBasedOptions()
    table.set_block_cache(Cache(96 * MIB))
    table.set_bloom_filter(10, False)
    table.set_cache_index_and_filter_blocks(False)
    # Single keys out of 10 M: 5.4 µs each, 7.6 with blocks of 4 KiB that are searched; for 2 bytes more an entry.
    table.set_block_size(2 * 1024)
    table.set_data_block_index_type(DataBlockIndexType.binary_and_hash())
    table.set_data_block_hash_ratio(0.75)
    options.set_block_based_table_factory(table)
    return options


def rows_with(database: Database, prefix: bytes) -> list[tuple[bytes, bytes]]:
    """Rows of the default family whose key starts with `prefix`, in order."""
    found: list[tuple[bytes, bytes]] = []
    items: Any = database.rows.items(from_key=prefix)
    for key, value in items:
        if not key.startswith(prefix):
            break
        found.append((key, value))
    return found
