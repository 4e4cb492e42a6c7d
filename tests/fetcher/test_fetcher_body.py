"""Bounded decoding: whatever is sent, no more than the cap comes out, and it comes in small pieces."""

import asyncio
import gzip
import os
import zlib
from collections.abc import AsyncIterator

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace_fetcher.body import Pace, read
from headrace_fetcher.encodings import MEMBERS, PIECE, Decoder
from headrace_fetcher.faults import BodyTooLarge, BrokenEncoding, TooSlow
from headrace_fetcher.memory import Memory
from headrace_runtime.clock import ManualClock
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
    names=st.lists(st.sampled_from(sorted(PACK)), max_size=2),
    step=st.integers(1, 4000),
)
def test_any_stacking_in_any_slices_gives_the_body_back(body: bytes, names: list[str], step: int) -> None:
    data = body
    for name in names:
        data = PACK[name](data)
    assert unpack(", ".join(names), data, step=step) == body


@pytest.mark.parametrize("name", sorted(PACK))
@pytest.mark.parametrize("of", [b"<p>some words</p>", b"\0"])
def test_a_page_that_says_the_same_a_million_times_is_whole(name: str, of: bytes) -> None:
    """Little goes in, much comes out: a decoder has taken all of its input long before its output ends."""
    page = of * (9 * MB // len(of))
    for step in (10, 10_000):
        assert unpack(name, PACK[name](page), 10 * MB, step) == page
    assert unpack("br", brotli.compress(page, lgwin=24, quality=5), 10 * MB) == page


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
    assert max(sizes, default=0) <= 2 * PIECE


def test_zstd_blocks_of_the_worst_ratio_stay_within_the_cap() -> None:
    """A frame of RLE blocks: four bytes each stand for 128 KiB (RFC 8878, section 3.1.1.2)."""
    header = b"\x28\xb5\x2f\xfd" + b"\x00" + b"\x58"  # no content size, window of 2 MiB
    block = ((128 * 1024) << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    sizes = until_too_large("zstd", header + block * 10_000, 1_000_000)
    assert max(sizes) == 2 * PIECE


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


SKIPPED = b"\x50\x2a\x4d\x18" + bytes(4)  # a zstd frame that carries nothing, eight bytes of it


@pytest.mark.parametrize(
    ("name", "member"),
    [("gzip", gzip.compress(b"")), ("zstd", zstandard.compress(b"")), ("zstd", SKIPPED)],
    ids=["gzip", "zstd", "skipped"],
)
@pytest.mark.parametrize("outer", [False, True])
def test_empty_members_are_bounded_in_number(name: str, member: bytes, outer: bool) -> None:
    data, encoding = member * (10 * MB // len(member)), name
    if outer:
        data, encoding = gzip.compress(data, 1), f"{name}, gzip"
    with pytest.raises(BrokenEncoding, match=f"more than {MEMBERS} members"):
        unpack(encoding, data, 10 * MB, step=len(data))
    honest = member * (MEMBERS // 2 - 2) + PACK[name](b"the end")
    assert unpack(name, honest, step=len(honest)) == b"the end"


def test_empty_blocks_are_bounded_too() -> None:
    blocks = b"\x28\xb5\x2f\xfd\x00\x58" + bytes(3) * (2 * MB)
    with pytest.raises(BrokenEncoding, match="members"):
        unpack("zstd, gzip", gzip.compress(blocks, 1), 10 * MB)


@pytest.mark.parametrize("step", [1, 5])
def test_frames_and_members_may_be_cut_anywhere_by_the_network(step: int) -> None:
    some = os.urandom(300_000)
    checked = zstandard.ZstdCompressor(write_checksum=True).compress(some)
    assert unpack("zstd", SKIPPED + checked + SKIPPED + checked, step=step) == some * 2
    assert unpack("gzip", gzip.compress(b"one ") + gzip.compress(b"two"), step=step) == b"one two"


async def test_a_long_decoding_leaves_the_rest_of_the_process_its_turns() -> None:
    """Nine megabytes of zeros come out of one small chunk; whatever else there is to do is done in between."""
    turns, clock = 0, ManualClock()

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def one() -> AsyncIterator[bytes]:
        yield bomb(9, "gzip, gzip")

    counting = asyncio.create_task(count())
    with Memory(20 * MB).share() as share:
        body, _ = await read(one(), Decoder("gzip, gzip", 10 * MB), share, Pace(clock, 0))
    counting.cancel()
    assert len(body) == 9 * MB
    assert turns > 2


@pytest.mark.parametrize("name", ["none", "UTF-8", "utf8", "binary", "identity, none", " , "])
def test_what_is_no_encoding_changes_nothing(name: str) -> None:
    assert unpack(name, b"plain words") == b"plain words"
    assert Decoder(name, MB).plain


@pytest.mark.parametrize("step", [1, 2, 1000])
@pytest.mark.parametrize("wbits", [zlib.MAX_WBITS, -zlib.MAX_WBITS], ids=["zlib", "bare"])
def test_deflate_of_both_kinds_is_told_apart_by_two_bytes_however_they_come(step: int, wbits: int) -> None:
    for page in (b"", b"words " * 1000, os.urandom(5000)):
        assert unpack("deflate", zlib.compress(page, wbits=wbits), step=step) == page


def test_nothing_at_all_is_an_empty_body_whatever_the_header_says() -> None:
    for name in PACK:
        assert unpack(name, b"") == b""


@pytest.mark.parametrize("name", ["rot13", "compress", "gzip, sdch", "gzip, gzip, gzip"])
def test_encodings_we_did_not_ask_for_are_refused(name: str) -> None:
    with pytest.raises(BrokenEncoding):
        Decoder(name, MB)


# ---- all bodies together ----


async def test_a_reader_waits_while_memory_is_full_and_goes_on_when_another_has_left() -> None:
    memory = Memory(100)
    with memory.share() as second_to_be:  # joins first, so it is the oldest
        assert second_to_be.grow(60)
        with memory.share() as younger:
            assert younger.grow(40)
            assert not younger.grow(1)
            waiting = asyncio.create_task(younger.wait(30))
            await asyncio.sleep(0)
            assert second_to_be.grow(20), "the oldest may always go on"
            assert not waiting.done()
            memory.leave(second_to_be)
            await waiting
            assert memory.used == 70
            memory.join(second_to_be)
    assert memory.used == 0


async def test_readers_who_all_want_more_than_there_is_end_one_after_the_other() -> None:
    memory, most = Memory(1000), 0

    async def read() -> None:
        nonlocal most
        with memory.share() as share:
            for _ in range(9):
                await asyncio.sleep(0)
                if not share.grow(100):
                    await share.wait(100)
                most = max(most, memory.used)

    await asyncio.wait_for(asyncio.gather(*(read() for _ in range(50))), 10)
    assert memory.used == 0
    assert most <= 1000 + 900


async def test_a_reader_cut_off_while_it_waits_holds_nothing() -> None:
    memory = Memory(100)

    async def read(size: int) -> None:
        with memory.share() as share:
            await share.wait(size)
            await asyncio.sleep(30)

    tasks = [asyncio.create_task(read(80)) for _ in range(3)]
    await asyncio.sleep(0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert memory.used == 0


def test_a_body_that_alone_is_more_than_memory_is_cut() -> None:
    with Memory(100).share() as share, pytest.raises(BodyTooLarge):
        share.grow(101)


# ---- the least rate ----


async def trickle(clock: ManualClock, size: int, seconds: float, count: int) -> AsyncIterator[bytes]:
    for _ in range(count):
        clock.advance(seconds)
        yield bytes(size)


async def body_of(clock: ManualClock, raw: AsyncIterator[bytes], memory: Memory, least: int = 100) -> int:
    with memory.share() as share:
        body, _ = await read(raw, Decoder("", MB), share, Pace(clock, least))
    return len(body)


async def test_a_body_below_the_least_rate_is_given_up_once_it_had_its_chance() -> None:
    clock = ManualClock()
    with pytest.raises(TooSlow, match=r"\d+ bytes in 6 s"):
        await body_of(clock, trickle(clock, 10, 1.0, 20), Memory(MB))


@pytest.mark.parametrize(("size", "seconds", "count"), [(10, 1.0, 5), (200, 1.0, 20), (2000, 9.0, 2)])
async def test_a_body_that_is_short_or_fast_enough_is_read(size: int, seconds: float, count: int) -> None:
    clock = ManualClock()
    assert await body_of(clock, trickle(clock, size, seconds, count), Memory(MB)) == size * count


async def test_any_rate_will_do_where_none_is_asked_for() -> None:
    clock = ManualClock()
    assert await body_of(clock, trickle(clock, 1, 9.0, 20), Memory(MB), least=0) == 20


async def test_the_time_we_wait_for_our_own_memory_is_not_held_against_the_server() -> None:
    clock, memory = ManualClock(), Memory(1000)
    with memory.share() as other:
        assert other.grow(1000)
        reading = asyncio.create_task(body_of(clock, trickle(clock, 300, 1.0, 3), memory))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        clock.advance(60.0)
    assert await reading == 900
