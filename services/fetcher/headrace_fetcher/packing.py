"""A body as it travels: its hash, and one zstd frame that says its size."""

import asyncio
import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import zstandard

INLINE = 100 * 1024  # bytes; below, a thread costs more than it frees. Both steps let go of the GIL


class Packed(NamedTuple):
    body: bytes
    sha256: str
    size: int


class Packer:
    def __init__(self, level: int, threads: int = 2) -> None:
        self._level = level
        self._local = threading.local()  # a compressor serves one thread at a time
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="pack")

    async def pack(self, body: bytes) -> Packed:
        if len(body) <= INLINE:
            return self._pack(body)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._pack, body)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _pack(self, body: bytes) -> Packed:
        compressor: zstandard.ZstdCompressor | None = getattr(self._local, "compressor", None)
        if compressor is None:
            compressor = self._local.compressor = zstandard.ZstdCompressor(level=self._level, write_content_size=True)
        return Packed(compressor.compress(body), hashlib.sha256(body).hexdigest(), len(body))
