"""Whether a long crawl kept what it fetched, looked at row by row: nothing here grows by more than a bit a page."""

import hashlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import zstandard

from benchmarks.web.log import Request
from benchmarks.web.site import Site

LOOKED_INTO = 5_000  # bodies that are read and compared with the web's own; of all others the file must be there


class Seen:
    """A bit for each page of the web."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._pages = site.spec.pages
        self._bits = bytearray(site.spec.hosts * self._pages // 8 + 1)
        self.known = self.again = self.strange = 0

    def add(self, address: str, path: str) -> None:
        host = self._site.hosts.get(address)
        number = 0 if path == "/" else int(path[3:]) if path.startswith("/p/") and path[3:].isdecimal() else -1
        if host is None or not 0 <= number < self._pages:
            self.strange += 1
            return
        at = host * self._pages + number
        if self._bits[at >> 3] >> (at & 7) & 1:
            self.again += 1
        else:
            self._bits[at >> 3] |= 1 << (at & 7)
            self.known += 1


class Asked(NamedTuple):
    """By the web's own log."""

    pages: int
    again: int
    strange: int


def asked(log: Path, begin: int, site: Site) -> Asked:
    """`begin`: bytes of the log that were there before."""
    seen, decode = Seen(site), msgspec.json.Decoder(Request).decode
    with log.open("rb") as lines:
        lines.seek(begin)
        for line in lines:
            request = decode(line)
            if request.path != "/robots.txt":
                seen.add(request.ip, request.path)
    return Asked(seen.known, seen.again, seen.strange)


def problems(workspace: Path, site: Site, log: Asked, wanted: int) -> Iterator[str]:
    """`wanted`: pages that the crawl was to ask for."""
    if log.strange:
        yield f"{log.strange:,} requests for pages that are not there"
    if log.pages != wanted:
        yield f"{log.pages:,} pages asked for, of {wanted:,}"
    with sqlite3.connect(f"file:{workspace / 'index.sqlite'}?mode=ro", uri=True) as index:
        yield from _of_rows(index, workspace, site, log.pages)
        (parsed,) = index.execute("SELECT count(*) FROM parsed").fetchone()
        if parsed != log.pages:
            yield f"{parsed:,} pages parsed, of {log.pages:,}"


def _of_rows(index: sqlite3.Connection, workspace: Path, site: Site, served: int) -> Iterator[str]:
    seen, step = Seen(site), max(1, served // LOOKED_INTO)
    bodiless = damaged = rows = 0
    for rows, (url, status, sha256) in enumerate(index.execute("SELECT url, status, sha256 FROM pages ORDER BY id"), 1):
        address, _, path = url.removeprefix("http://").partition("/")
        seen.add(address.partition(":")[0], "/" + path)
        body = workspace / f"store/html/{sha256[:2]}/{sha256[2:4]}/{sha256}.html.zst"
        if status != 200 or not body.is_file():
            bodiless += 1
        elif rows % step == 0:
            damaged += not _as_served(body, sha256, site, address.partition(":")[0], "/" + path)
    if rows != served or seen.known != served:
        yield f"{rows:,} rows of {seen.known:,} different pages, and {served:,} were served"
    if bodiless:
        yield f"{bodiless:,} rows have no body"
    if damaged:
        yield f"{damaged:,} bodies are not what was served, of every {step}th looked into"


def _as_served(path: Path, sha256: str, site: Site, address: str, target: str) -> bool:
    body = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())
    return hashlib.sha256(body).hexdigest() == sha256 and body == site.answer(address, target, {}).body


class OnDisk(NamedTuple):
    size: int
    """Bytes, in whole blocks, folders too."""
    length: int
    """Bytes, of files alone."""
    entries: int
    """Files and folders."""


def on_disk(folder: Path) -> OnDisk:
    size = length = entries = 0
    todo = [str(folder)]
    while todo:
        with os.scandir(todo.pop()) as found:
            for entry in found:
                about = entry.stat(follow_symlinks=False)
                entries += 1
                size += about.st_blocks * 512
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
                else:
                    length += about.st_size
    return OnDisk(size, length, entries)
