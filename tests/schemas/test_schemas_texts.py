"""The text of a page, packed for its way."""

import pytest
import zstandard

from headrace_schemas.errors import Poison
from headrace_schemas.messages import ParsedPage
from headrace_schemas.texts import SHORT, Packer, text_of, unpacked


def test_a_packed_text_is_the_text_and_one_that_is_not_packed_too() -> None:
    frame = zstandard.ZstdCompressor().compress("Überall ☃ text".encode())
    assert text_of(ParsedPage(1, "https://a/", b"k", "ok", packed_text=frame)) == "Überall ☃ text"
    assert text_of(ParsedPage(1, "https://a/", b"k", "ok", text="short")) == "short"


def test_what_is_packed_is_unpacked_and_a_short_text_is_not_packed() -> None:
    packer = Packer()
    for text in ("☃" * (SHORT + 1), "a" * 100_000):
        assert unpacked(packer.packed(text)) == text
    assert packer.packed("☃" * SHORT) == b""


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"text",
        b"\x28\xb5\x2f\xfd",
        zstandard.ZstdCompressor().compress(b"\xff\xfe not UTF-8"),
        zstandard.ZstdCompressor().compress(b"all of it")[:-3],
        zstandard.ZstdCompressor(write_content_size=False).compress(b"of no size"),
        zstandard.ZstdCompressor().compress(bytes(65 * 1024 * 1024)),
    ],
    ids=["nothing", "no frame", "a head alone", "not UTF-8", "cut", "of no size", "a bomb"],
)
def test_what_is_no_packed_text_is_poison(frame: bytes) -> None:
    with pytest.raises(Poison):
        unpacked(frame)
