"""Bounded decoding: whatever is sent, no more than the cap comes out, and it comes in small pieces."""

import gzip
import os
import zlib

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace_fetcher.body import PIECE, Decoder
from headrace_fetcher.faults import BodyTooLarge, BrokenEncoding
from tests.fetcher.hostile import bomb

MB = 1024 * 1024
PACK = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
    "identity": bytes,
}


def unpack(encoding: str, data: bytes, limit: int = MB, step: int = 1000) -> bytes:
    decoder = Decoder(encoding, limit)
    out = [piece for at in range(0, len(data), step) for piece in decoder.feed(data[at : at + step])]
    decoder.finish()
    return b"".join(out)


@settings(max_examples=80, deadline=None)
@given(
    body=st.binary(max_size=5000) | st.binary(max_size=50).map(lambda some: some * 200),
    names=st.lists(st.sampled_from(sorted(PACK)), max_size=3),
    step=st.integers(1, 4000),
)
def test_any_stacking_in_any_slices_gives_the_body_back(body: bytes, names: list[str], step: int) -> None:
    data = body
    for name in names:
        data = PACK[name](data)
    assert unpack(", ".join(names), data, step=step) == body


@settings(max_examples=150, deadline=None)
@given(data=st.binary(max_size=3000), name=st.sampled_from(["gzip", "deflate", "br", "zstd", "gzip, br"]))
def test_garbage_is_broken_or_something_but_nothing_else(data: bytes, name: str) -> None:
    try:
        unpack(name, data)
    except (BrokenEncoding, BodyTooLarge):
        pass


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_a_body_cut_short_is_broken(name: str) -> None:
    data = PACK[name](os.urandom(20_000))
    with pytest.raises(BrokenEncoding, match="cut short"):
        unpack(name, data[:-200])


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_a_corrupt_body_is_broken(name: str) -> None:
    data = bytearray(PACK[name](b"words and more words " * 5000))
    data[2 if name == "zstd" else 1] ^= 0xFF
    with pytest.raises(BrokenEncoding):
        unpack(name, bytes(data))


def until_too_large(encoding: str, data: bytes, step: int) -> list[int]:
    """Sizes of the pieces that come out before the decoder gives up, which it must."""
    decoder, sizes = Decoder(encoding, MB), []
    try:
        for at in range(0, len(data), step):
            for piece in decoder.feed(data[at : at + step]):
                sizes.append(len(piece))
    except BodyTooLarge:
        return sizes
    raise AssertionError(f"{sum(sizes)} bytes came out")


@pytest.mark.parametrize("name", ["gzip", "br", "zstd", "gzip, gzip"])
@pytest.mark.parametrize("step", [100, 10_000_000])
def test_a_bomb_comes_out_in_small_pieces_and_stops_at_the_cap(name: str, step: int) -> None:
    sizes = until_too_large(name, bomb(48, name), step)
    assert sum(sizes) <= MB
    assert max(sizes, default=0) <= (MB if name == "zstd" else 2 * PIECE)


def test_zstd_blocks_of_the_worst_ratio_stay_within_the_cap() -> None:
    """A frame of RLE blocks: four bytes each stand for 128 KiB (RFC 8878, section 3.1.1.2)."""
    header = b"\x28\xb5\x2f\xfd" + b"\x00" + b"\x58"  # no content size, window of 2 MiB
    block = ((128 * 1024) << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    sizes = until_too_large("zstd", header + block * 10_000, 1_000_000)
    assert sizes
    assert max(sizes) <= MB


def test_a_layer_that_swallows_its_input_does_not_escape_the_cap() -> None:
    """The inner gzip header has a comment that never ends: no output, so only the outer layer can be counted."""
    inner = b"\x1f\x8b\x08\x10" + bytes(6) + b"a" * (20 * MB)
    with pytest.raises(BodyTooLarge):
        unpack("gzip, gzip", gzip.compress(inner))


def test_a_window_larger_than_a_server_may_ask_for_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=25)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    with pytest.raises(BrokenEncoding):
        unpack("zstd", packer.compress(os.urandom(MB)) + packer.flush(), limit=10 * MB)


def test_members_and_frames_one_after_the_other_are_one_body() -> None:
    assert unpack("gzip", gzip.compress(b"one ") + gzip.compress(b"two") + b"\0\0padding") == b"one two"
    assert unpack("zstd", zstandard.compress(b"one ") + zstandard.compress(b"two")) == b"one two"


def test_nothing_at_all_is_an_empty_body_whatever_the_header_says() -> None:
    for name in PACK:
        assert unpack(name, b"") == b""


@pytest.mark.parametrize("name", ["rot13", "compress", "gzip, sdch", "gzip,gzip,gzip,gzip,gzip"])
def test_encodings_we_did_not_ask_for_are_refused(name: str) -> None:
    with pytest.raises(BrokenEncoding):
        Decoder(name, MB)
