"""Readable filler, made once and sliced: a page of 3 KB must cost microseconds, or time stamps would be late."""

import random

BLOCK = 256  # bytes of a paragraph; all are alike, so that any run of them is whole HTML
_BLOCKS = 512

_PLACES = ("Otter", "Heron", "Willow", "Alder", "Kingfisher", "Trout", "Reed", "Marten", "Linden", "Swallow", "Rowan")
_WATERS = ("Brook", "Weir", "Race", "Pond", "Ford", "Beck", "Spring", "Sluice", "Reach", "Meadow")
_THINGS = (
    "wheel", "millstone", "sluice", "gate", "channel", "mill pond", "hopper", "axle", "grain", "sack", "weir", "bank",
    "granary", "flour bin", "cog",
)  # fmt: skip
_DOES = (
    "turns", "fills", "feeds", "carries", "stops", "lifts", "grinds", "waits for", "listens to", "empties", "follows",
)  # fmt: skip
_HOW = ("slowly", "at dawn", "in spring", "after rain", "by hand", "in dry years", "before noon", "without noise")
_TOPICS = (
    "The wheel after rain", "Bread from slow stone", "A gate that would not close", "Notes on still water",
    "The miller's almanac", "How grain is weighed", "Eels in the channel", "A winter without ice", "The oldest cog",
    "Letters to the weir keeper", "What the flood left", "Dressing a millstone", "The sound of an empty hopper",
    "Paths along the bank", "Measuring the head of water", "A short history of leaks",
)  # fmt: skip


class Prose:
    def __init__(self, seed: int) -> None:
        rnd = random.Random(seed)
        self._text = b"".join(_paragraph(rnd) for _ in range(_BLOCKS))

    def paragraphs(self, count: int, draw: int) -> bytes:
        start = draw % _BLOCKS * BLOCK
        text, want = self._text[start : start + count * BLOCK], count * BLOCK
        while len(text) < want:
            text += self._text[: want - len(text)]
        return text


def site_name(draw: int, host: int) -> str:
    return f"{_PLACES[draw % len(_PLACES)]} {_WATERS[(draw >> 16) % len(_WATERS)]} Mill {host}"


def topic(draw: int) -> str:
    return _TOPICS[draw % len(_TOPICS)]


def _paragraph(rnd: random.Random) -> bytes:
    text = ""
    room = BLOCK - len("<p></p>\n")
    while len(text) < room:
        verb, adverb = rnd.choice(_DOES), rnd.choice(_HOW)
        text += f"The {rnd.choice(_THINGS)} {verb} the {rnd.choice(_THINGS)} {adverb}. "
    whole = text[: text.rindex(".", 0, room) + 1]
    return f"<p>{whole}</p>".ljust(BLOCK - 1).encode("ascii") + b"\n"
