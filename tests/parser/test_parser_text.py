"""Visible text: whatever kinds of white space a page has, a reader sees single spaces."""

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_parser import document
from headrace_parser.page import text_of

SPACES = [character for character in map(chr, range(0x110000)) if character.isspace()]


def seen(body: str) -> str:
    return text_of(f"<html><body>{body}</body></html>".encode(), "utf-8")


@pytest.mark.parametrize("space", [space for space in SPACES if space not in "\x1c\x1d\x1e\x1f\x0b\x0c"])
def test_every_white_space_is_one_space(space: str) -> None:
    assert seen(f"<p>{space}one{space}{space}two {space}</p>") == "one two"


@given(st.text(st.sampled_from([*SPACES, *"abcé中&<", "\u200b"]), max_size=60))
def test_the_text_of_a_paragraph_is_its_words(text: str) -> None:
    filling = "text " * 200  # with many control characters in little text it would be taken for no text at all
    root = document.read(f"<p>{filling}{html.escape(text)} end</p>".encode(), "utf-8").root
    words = document.folded(root.text())
    assert document.visible_text(root) == words


def test_blocks_are_apart_and_inline_elements_are_not() -> None:
    assert seen("<p>one</p><p>two</p><div>th<b>re</b>e<br>four</div>\n\n<script>no()</script> five") == (
        "one two three four five"
    )
