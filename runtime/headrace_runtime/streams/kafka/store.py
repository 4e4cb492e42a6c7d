"""The local copy of one partition's state: a RocksDB that can be thrown away, since the changelog has all of it."""

import asyncio
import errno
import logging
import os
import shutil
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from rocksdict import BlockBasedOptions, Cache, Options, Rdict, ReadOptions, WriteBatch

from headrace_runtime.clock import Clock
from headrace_runtime.streams.kafka.topics import TOMBSTONES_KEPT
from headrace_schemas.errors import Unavailable, WorkspaceBusy

log = logging.getLogger(__name__)

_STATE = b"s"
_MARK = b"m"
_LINEAGE = b"l"
_MARK_FORMAT = struct.Struct(">Qd")
_STALE = TOMBSTONES_KEPT / 2
"""Seconds after which a copy is not believed: deletions compacted away meanwhile would come back to life."""
_BUSY_SECONDS = 10.0
_UNWRITABLE = (
    "Writer has previous error",
    *map(os.strerror, (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE)),
)
"""What is wrong with the disk and not with the copy: in words of the system, since rocksdict passes nothing else on."""


class StateOptions:
    """Shared by all partitions of a process: 64 of them with RocksDB's defaults would take gigabytes."""

    def __init__(self, cache: int = 64 << 20) -> None:
        table = BlockBasedOptions()
        table.set_block_cache(Cache(cache))
        table.set_bloom_filter(10, False)
        self.options = Options(raw_mode=True)
        self.options.create_if_missing(True)
        self.options.set_block_based_table_factory(table)
        self.options.set_write_buffer_size(8 << 20)
        self.options.set_max_write_buffer_number(2)
        self.options.set_max_open_files(64)
        self.options.set_max_total_wal_size(32 << 20)
        self.options.set_keep_log_file_num(1)


class LocalState:
    """Implements `StateView`. RocksDB's own file lock keeps two processes from sharing it."""

    def __init__(self, path: Path, db: Rdict, clock: Clock) -> None:
        self._path, self._db, self._clock = path, db, clock
        raw = db.get(_MARK)
        self.offset, self._seen = _MARK_FORMAT.unpack(raw) if raw else (0, clock.now())
        """Where in the changelog this copy stands."""

    @classmethod
    async def open(cls, path: Path, lineage: str, options: StateOptions, clock: Clock) -> "LocalState":
        """`lineage` names the changelog this is a copy of: one of another cluster is of no use."""
        with _translated(path):
            state = cls(path, await _opened(path, options), clock)
            try:
                if not state._believable(lineage):
                    state.close()
                    shutil.rmtree(path)
                    state = cls(path, await _opened(path, options), clock)
                state._db.put(_LINEAGE, lineage.encode())
            except BaseException:
                state.close()
                raise
            return state

    def _believable(self, lineage: str) -> bool:
        known: bytes | None = self._db.get(_LINEAGE)
        if known is None and self.offset == 0:
            return True
        if known != lineage.encode():
            log.warning("%s is of another changelog: rebuilt", self._path)
            return False
        age = self._clock.now() - self._seen
        if age > _STALE:
            log.warning("%s was last used %.0f h ago: rebuilt from the changelog", self._path, age / 3600)
            return False
        return True

    def get(self, keys: Sequence[bytes]) -> list[bytes | None]:
        if not keys:
            return []
        return cast("list[bytes | None]", self._db.get([_STATE + key for key in keys]))

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        bounds = ReadOptions()
        bounds.set_iterate_upper_bound(_STATE + stop)
        items = cast("Iterator[tuple[bytes, bytes]]", self._db.items(from_key=_STATE + start, read_opt=bounds))
        for key, value in items:
            yield key[1:], value

    @property
    def empty(self) -> bool:
        return next(self.scan(b"", b"\xff" * 64), None) is None

    def apply(self, writes: Iterable[tuple[bytes, bytes | None]], offset: int) -> None:
        """One batch, with the offset it brings this copy to: a kill leaves all of it or none. `Unavailable` if the disk
        takes no more: RocksDB writes nothing from then on, and is to be opened anew."""
        batch = WriteBatch(raw_mode=True)
        for key, value in writes:
            if value is None:
                batch.delete(_STATE + key)
            else:
                batch.put(_STATE + key, value)
        batch.put(_MARK, _MARK_FORMAT.pack(offset, self._clock.now()))
        with _translated(self._path):
            self._db.write(batch)
        self.offset = offset

    def clear(self) -> None:
        """Forgets everything: the changelog does not go on from here."""
        with _translated(self._path):
            self._db.delete_range(_STATE, _STATE + b"\xff" * 64)
        self.apply((), 0)

    def close(self) -> None:
        """What a full disk did not take is in the changelog. Twice is once."""
        try:
            self._db.close()
        except Exception as error:  # rocksdict raises bare Exceptions
            if not _unwritable(error):
                raise


def _unwritable(error: Exception) -> bool:
    return any(words in str(error) for words in _UNWRITABLE)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except (Unavailable, WorkspaceBusy):
        raise
    except Exception as error:  # rocksdict raises bare Exceptions
        if not _unwritable(error):
            raise
        raise Unavailable(f"the state in {path} cannot be written: {error}") from error


async def _opened(path: Path, options: StateOptions) -> Rdict:
    """Waits a little for the last holder in this process; a broken copy is thrown away."""
    path.mkdir(parents=True, exist_ok=True)
    for attempt in range(2 if path.exists() else 1):
        try:
            return await _unlocked(path, options)
        except WorkspaceBusy:
            raise
        except Exception as error:  # rocksdict raises bare Exceptions
            if attempt or _unwritable(error):  # a copy that is deleted for want of room would have to be read again
                raise
            log.warning("%s cannot be read (%s): rebuilt from the changelog", path, error)
            shutil.rmtree(path)
            path.mkdir(parents=True)
    raise AssertionError


async def _unlocked(path: Path, options: StateOptions) -> Rdict:
    tries = int(_BUSY_SECONDS / 0.1)
    for left in reversed(range(tries)):
        try:
            return Rdict(str(path), options.options)
        except Exception as error:
            if _unwritable(error) or "lock" not in str(error).lower():
                raise
            if not left:
                raise WorkspaceBusy(f"another process holds the state in {path}") from None
        await asyncio.sleep(0.1)
    raise AssertionError
