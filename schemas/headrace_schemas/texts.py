"""The text of a page as it travels and is kept: packed once by the parser, unpacked by whoever shows it."""

import zstandard

from headrace_schemas.errors import Poison
from headrace_schemas.messages import ParsedPage

LEVEL = 1  # zstd; a real page's text shrinks to a third in 25 us, and level 3 takes a quarter more time for 4 % of that
SHORT = 200  # characters up to which a frame would save nothing worth its making
_MOST = 64 * 1024 * 1024  # bytes a frame may name: far more than any cap on text, far less than hurts


class Packer:
    """One thread at a time."""

    def __init__(self) -> None:
        self._zstd = zstandard.ZstdCompressor(LEVEL)

    def packed(self, text: str) -> bytes:
        """Empty for a short text: it travels as it is."""
        return self._zstd.compress(text.encode()) if len(text) > SHORT else b""


def text_of(page: ParsedPage) -> str:
    return unpacked(page.packed_text) if page.packed_text else page.text


def unpacked(frame: bytes) -> str:
    """`Poison`: it is no such frame."""
    try:
        size = zstandard.frame_content_size(frame)
        if not 0 <= size <= _MOST:
            raise Poison(f"a text of {size} bytes")
        return zstandard.ZstdDecompressor().decompress(frame).decode()
    except (zstandard.ZstdError, UnicodeDecodeError) as error:
        raise Poison(f"not a packed text: {error}") from None
