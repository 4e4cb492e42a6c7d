"""Out of order in, prefix out."""

import random

from hypothesis import given
from hypothesis import strategies as st

from headrace_runtime.streams.kafka.window import SPAN, Window, done_beyond


def received(*offsets: int, done: set[int] | None = None) -> Window:
    window = Window(done)
    for offset in offsets:
        window.receive(offset)
    return window


def test_the_oldest_record_not_done_is_next_whatever_else_is_done() -> None:
    window = received(10, 11, 12, 13)
    window.finish(12)
    window.finish(11)
    assert window.next == 10
    window.finish(10)
    assert window.next == 13
    window.finish(13)
    assert window.next is None


def test_offsets_with_gaps_are_passed_over() -> None:
    window = received(3, 5, 9)
    window.finish(3)
    assert window.next == 5


def test_a_window_is_full_by_its_span_not_by_its_count() -> None:
    window = received(0, SPAN - 1)
    assert not window.full
    window.receive(SPAN)
    assert window.full
    window.finish(0)
    assert not window.full


def test_what_was_done_before_a_restart_is_not_handed_out_again() -> None:
    before = received(*range(100, 120))
    for offset in (103, 104, 110, 119):
        before.finish(offset)

    after = Window(done_beyond(100, before.bitmap(100)))

    assert [offset for offset in range(100, 120) if not after.receive(offset)] == [103, 104, 110, 119]
    for offset in range(100, 120):
        after.finish(offset)
    assert after.next is None


@given(st.sets(st.integers(0, 3 * SPAN), min_size=1), st.integers(0, 2**40))
def test_a_bitmap_says_what_is_done_and_fits_into_a_commit(done: set[int], start: int) -> None:
    window = Window()
    for offset in sorted(done):
        window.finish(start + offset)

    bitmap = window.bitmap(start)

    assert len(bitmap) <= 3_000
    assert done_beyond(start, bitmap) == {start + offset for offset in done if offset < 18_000}


def test_metadata_of_someone_else_means_that_nothing_is_known_to_be_done() -> None:
    for metadata in ("", "{not ours}", "é", "abc"):
        assert done_beyond(5, metadata) == set()


def test_a_prefix_never_passes_a_record_that_is_not_done() -> None:
    chance = random.Random(11)
    offsets = sorted(chance.sample(range(10_000), 500))
    window, open_ = received(*offsets), set(offsets)
    for offset in chance.sample(offsets, len(offsets)):
        window.finish(offset)
        open_.discard(offset)
        assert window.next == min(open_, default=None)
