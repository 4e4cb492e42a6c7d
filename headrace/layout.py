"""What is fixed for the life of a crawl is written once, and asserted by everyone who starts later (design [12])."""

from publicsuffixlist import __version__ as suffix_version

from headrace_runtime.streams.seams import Send, Streams, Table
from headrace_schemas import codec
from headrace_schemas.errors import LayoutMismatch, TooNew
from headrace_schemas.messages import Layout
from headrace_schemas.settings import Settings
from headrace_schemas.topics import LAYOUT_KEY
from headrace_schemas.urls import Canonicaliser

FORMAT = 1


def layout_of(settings: Settings) -> Layout:
    return Layout(
        partitions=settings.partitions,
        politeness_key=settings.politeness.key,
        canonicaliser=Canonicaliser(settings.canonical).fingerprint,
        suffix_list=suffix_version if settings.politeness.key == "domain" else "",
        format=FORMAT,
    )


async def assert_layout(streams: Streams, control: Table, settings: Settings, *, create: bool) -> None:
    """Compares with what is written; writes it if nothing is and `create`."""
    ours = layout_of(settings)
    row = control.rows.get(LAYOUT_KEY)
    if row is None:
        if create:
            await streams.publish([Send("crawl.control", 0, codec.encode(ours), LAYOUT_KEY)])
        return
    theirs: Layout = codec.decode("crawl.control", row)
    if theirs.format > FORMAT:
        raise TooNew(f"this crawl was made by a newer headrace (format {theirs.format}, ours is {FORMAT}): upgrade")
    for name, setting in (
        ("partitions", "streams.partitions"),
        ("politeness_key", "politeness.key"),
        ("canonicaliser", "canonical"),
        ("suffix_list", "public suffix list"),
    ):
        was, now = getattr(theirs, name), getattr(ours, name)
        if was != now:
            raise LayoutMismatch(
                f"{setting} is {now}, but this crawl was made with {was} and that is fixed for its life: "
                f"set it back, or start anew (`headrace reset`)"
            )
