"""Ways to make files survive a power cut, before their offsets pass."""

import ctypes
import os
from collections.abc import Sequence
from typing import Protocol


class Syncing(Protocol):
    def folder_made(self, folder: str) -> None:
        """A folder was made, perhaps with its parents."""
        ...

    def sync(self, root: str, files: Sequence[str]) -> None:
        """`files`, below `root`, and their names are on the disk when it returns; `OSError` if they are not."""
        ...


class NoSync:
    """What the system writes by itself survives."""

    def folder_made(self, folder: str) -> None:
        pass

    def sync(self, root: str, files: Sequence[str]) -> None:
        pass


class FileSystemSync:
    """One `syncfs` a batch: a quarter of the cost of an fsync a file, from about ten files on."""

    def __init__(self, syncfs: "ctypes._NamedFuncPointer") -> None:
        self._syncfs = syncfs

    def folder_made(self, folder: str) -> None:
        pass

    def sync(self, root: str, files: Sequence[str]) -> None:
        handle = os.open(root, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if self._syncfs(handle) != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), root)
        finally:
            os.close(handle)


class FileSync:
    """fsync for each file, then for each folder, its new parents included: where there is no `syncfs`.

    Files that were there already are synced as well: a try that failed half-way may have left them unsynced.
    """

    def __init__(self) -> None:
        self._made: set[str] = set()

    def folder_made(self, folder: str) -> None:
        self._made.add(folder)

    def sync(self, root: str, files: Sequence[str]) -> None:
        folders = {os.path.dirname(file) for file in files}
        for folder in self._made:
            parent = os.path.dirname(folder)
            folders.update((folder, parent, os.path.dirname(parent)))
        for path in (*files, *sorted(folders)):
            _fsync(path)
        self._made.clear()


def _fsync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def best_sync() -> Syncing:
    """`syncfs` where the C library has it (Linux), else fsync."""
    try:
        syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    except (OSError, AttributeError):
        return FileSync()
    syncfs.argtypes = [ctypes.c_int]
    syncfs.restype = ctypes.c_int
    return FileSystemSync(syncfs)
