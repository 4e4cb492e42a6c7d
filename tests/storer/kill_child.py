"""Stores a site and kills itself (SIGKILL) at a named point: `python -m tests.storer.kill_child WORKSPACE POINT`."""

import os
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from sqlalchemy import event

from headrace_runtime.streams.seams import Record
from headrace_schemas.settings import Settings
from headrace_storer.archive import Archive, Batch
from headrace_storer.durable import best_sync
from headrace_storer.handler import Body
from headrace_storer.index import Index, open_index
from headrace_storer.store import Store
from tests.storer.storer_messages import page, parsed, record

POINTS = (
    "half a body",
    "some bodies",
    "bodies not synced",
    "bodies",
    "rows not committed",
    "rows",
)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def records() -> list[Record]:
    messages = [
        message
        for n in range(1, 31)
        for message in (page(n, f"http://site.test/{n}", b"body %d" % n * 50), parsed(n, f"http://site.test/{n}"))
    ]
    return [record(message, offset) for offset, message in enumerate(messages)]


class DyingStore(Store):
    point = ""
    written = 0

    def _write(self, sha256: str, path: str, frame: bytes) -> int:
        self.written += 1
        if self.written == 10 and self.point == "half a body":
            (Path(path).parents[4] / "store/tmp/half").write_bytes(frame[: len(frame) // 2])
            die()
        if self.written == 10 and self.point == "some bodies":
            die()
        return super()._write(sha256, path, frame)

    def write_batch(self, bodies: Iterable[Body]) -> int:
        if self.point == "bodies not synced":
            self._syncing = DyingSync()
        written = super().write_batch(bodies)
        if self.point == "bodies":
            die()
        return written


class DyingSync:
    def folder_made(self, folder: str) -> None:
        pass

    def sync(self, root: str, files: Sequence[str]) -> None:
        die()


def open_dying_index(workspace: Path, point: str) -> Index:
    index = open_index(Settings(), workspace, create=True)
    if point == "rows not committed":
        event.listen(index._engine, "commit", lambda _: die())
    return index


def main(workspace: Path, point: str) -> None:
    store = DyingStore(workspace, best_sync())
    store.point = point
    archive = Archive(store, lambda: open_dying_index(workspace, point), lambda: 0.0)
    archive.keep(Batch(records()))
    if point == "rows":
        die()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
