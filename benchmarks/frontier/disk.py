"""Bytes on disk of the seen entries alone, in files made with the engine's own options.

In the live database they lie between queues and hosts in the same files, so they are copied to one of their own.
"""

import tempfile
from pathlib import Path

from rocksdict import Rdict, WriteBatch

from headrace_frontier.seen import SEEN
from headrace_runtime.streams.embedded.database import Database, _state_options
from headrace_runtime.streams.embedded.layout import state_prefix
from headrace_runtime.streams.embedded.state import EmbeddedState
from headrace_schemas.topics import FRONTIER

_BATCH = 10_000
_FIXED = 14
"""Bytes that stay of an entry once its URL is out of the queue."""


def seen_bytes(database: Database, folder: Path, *, settled: bool) -> float:
    """For each entry. `settled`: as they are once fetched; otherwise as they are, most queued and so with a place."""
    prefix = state_prefix(FRONTIER, 0)
    entries = 0
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        copy = Rdict(scratch, _state_options())
        batch = WriteBatch(raw_mode=True)
        for key, value in EmbeddedState(database, FRONTIER, 0).scan(SEEN, bytes([SEEN[0] + 1])):
            batch.put(prefix + key, value[:_FIXED] if settled else value)
            entries += 1
            if entries % _BATCH == 0:
                copy.write(batch)
                batch = WriteBatch(raw_mode=True)
        copy.write(batch)
        copy.flush(True)
        copy.compact_range(None, None)
        size = _files(copy)
        copy.close()
    return size / max(1, entries)


def state_bytes(database: Database) -> tuple[int, int]:
    """All that the frontier keeps, queues and hosts too: before and after a compaction of it."""
    database.state.flush(True)
    before = _files(database.state)
    database.state.compact_range(None, None)
    return before, _files(database.state)


def _files(family: Rdict) -> int:
    return int(family.property_int_value("rocksdb.live-sst-files-size") or 0)
