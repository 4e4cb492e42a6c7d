"""Bodies by content: `store/html/aa/bb/<sha256>.html.zst`, zstd as the fetcher made it, written whole or not at all."""

import errno
import hashlib
import os
import re
import secrets
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import zstandard

from headrace_schemas.errors import Poison, Unavailable
from headrace_storer.durable import Syncing
from headrace_storer.handler import Body

ROOT = "store/html"
_TEMPORARY = "store/tmp"
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_NAME = re.compile(r"(?:store/html/[0-9a-f]{2}/[0-9a-f]{2}/)?([0-9a-f]{64})(?:\.html\.zst)?")


def path_of(sha256: str) -> str:
    """Relative to the workspace."""
    return f"{ROOT}/{sha256[:2]}/{sha256[2:4]}/{sha256}.html.zst"


class Store:
    """Blocking. Several processes may share one folder: names are of the content, so they never disagree.

    Temporary files lie in one folder of their own, on the same file system: after a kill the leftovers are found
    without walking 65,536 folders, and nothing under `store/html` is ever half a body.
    """

    def __init__(self, workspace: Path, syncing: Syncing) -> None:
        self._workspace = workspace
        self._syncing = syncing
        self._root = str(workspace)
        self._temporary = f"{workspace}/{_TEMPORARY}/{secrets.token_hex(6)}-"
        self._count = 0
        self._known = bytearray(65_536)
        """By the first two bytes of a hash: 1 if its folder is there."""

    path_of = staticmethod(path_of)

    def open(self, *, abandoned_before: float) -> int:
        """Makes the folders; deletes temporary files last written before that time (seconds since the epoch).
        → how many it deleted."""
        try:
            (self._workspace / ROOT).mkdir(parents=True, exist_ok=True)
            (self._workspace / _TEMPORARY).mkdir(parents=True, exist_ok=True)
            return sum(_delete_older(entry, abandoned_before) for entry in os.scandir(self._workspace / _TEMPORARY))
        except OSError as error:
            raise _unavailable(error) from error

    def write_batch(self, bodies: Iterable[Body]) -> int:
        """All of them are there, durable as the settings ask, when it returns; those already there are not written
        again. → bytes written. `Unavailable`: some may be there, harmless; try again."""
        frames = {body.sha256: body.frame for body in bodies}
        if not frames:
            return 0
        paths = [f"{self._root}/{path_of(sha256)}" for sha256 in frames]
        try:
            written = sum(map(self._write, frames, paths, frames.values()))
            self._syncing.sync(f"{self._root}/{ROOT}", paths)
        except OSError as error:
            self._known = bytearray(65_536)  # someone may have deleted them under us
            with suppress(OSError):
                os.makedirs(f"{self._root}/{_TEMPORARY}", exist_ok=True)
            raise _unavailable(error) from error
        return written

    @property
    def is_here(self) -> bool:
        """Whether there is a store at all: a machine from which commands are typed may have none."""
        return (self._workspace / ROOT).is_dir()

    def has(self, sha256: str) -> bool:
        return (self._workspace / path_of(sha256)).exists()

    def read(self, name: str) -> bytes:
        """The body of a hash or of a stored path, checked against its hash. `Poison`: missing or damaged."""
        match = _NAME.fullmatch(name)
        if match is None:
            raise Poison(f"neither a SHA-256 nor a path of the store: {name[:200]!r}")
        sha256 = match[1]
        try:
            frame = (self._workspace / path_of(sha256)).read_bytes()
        except FileNotFoundError:
            raise Poison(f"{path_of(sha256)} is missing") from None
        except OSError as error:
            raise _unavailable(error) from error
        try:
            body = zstandard.ZstdDecompressor().decompressobj().decompress(frame)
        except zstandard.ZstdError as error:
            raise Poison(f"{path_of(sha256)} is damaged: {error}") from None
        if hashlib.sha256(body).hexdigest() != sha256:
            raise Poison(f"{path_of(sha256)} is damaged: its content has another hash")
        return body

    def _write(self, sha256: str, path: str, frame: bytes) -> int:
        """A file of another size is one whose bytes a power cut took (or one made at another zstd level): replaced."""
        number = int(sha256[:4], 16)
        if self._known[number] or not self._make_folder(number, path.rpartition("/")[0]):
            try:
                if os.stat(path).st_size == len(frame):
                    return 0
            except FileNotFoundError:
                pass
        self._count += 1
        temporary = f"{self._temporary}{self._count}"
        try:
            _write_file(temporary, frame)
            os.rename(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        return len(frame)

    def _make_folder(self, number: int, folder: str) -> bool:
        """→ whether it is new, and so empty. By as few calls as can be: a young store makes a folder for every body."""
        new = True
        try:
            os.mkdir(folder)
        except FileExistsError:
            new = False
        except FileNotFoundError:
            os.makedirs(folder, exist_ok=True)
        self._syncing.folder_made(folder)  # an old one too: who made it may have been killed before it was synced
        self._known[number] = 1
        return new


def _write_file(path: str, data: bytes) -> None:
    handle = os.open(path, _NEW, 0o644)
    try:
        done = os.write(handle, data)
        while done < len(data):
            done += os.write(handle, memoryview(data)[done:])
    finally:
        os.close(handle)


def _delete_older(entry: "os.DirEntry[str]", before: float) -> int:
    try:
        if entry.is_file(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_mtime < before:
            os.unlink(entry.path)
            return 1
    except FileNotFoundError:  # its own process was quicker
        pass
    return 0


def _unavailable(error: OSError) -> Unavailable:
    name = errno.errorcode.get(error.errno or 0, "")
    return Unavailable(f"store: {error.strerror or error} ({name}) {error.filename or ''}".rstrip())
