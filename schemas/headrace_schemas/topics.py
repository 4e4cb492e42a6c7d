"""The topic table: the system in one page. Creation, codecs, docs and the completion scan are derived from it."""

from typing import Literal

from msgspec import Struct

from headrace_schemas import messages as m

DAY = 86_400.0

KEEP = 7 * DAY
"""What a work topic keeps, unless its row says otherwise: the time for a replay."""

FRONTIER, FETCHER, PARSER, STORER = "frontier", "fetcher", "parser", "storer"
GROUPS = (FRONTIER, FETCHER, PARSER, STORER)


class Topic(Struct, frozen=True):
    name: str
    types: tuple[type[Struct], ...]
    producers: tuple[str, ...]
    readers: tuple[str, ...]
    """Consuming groups. Each (topic, reader) is an edge that must be read to its end before a crawl is complete."""
    key: str
    """What decides the partition."""
    kind: Literal["work", "table", "changelog", "audit"] = "work"
    """work: read in order by groups, deleted once all have read it and it is `keep` old.
    table: latest value per key, read by everyone without a group.  changelog: as table, private to its writer.
    audit: kept for people."""
    keep: float = KEEP
    """Seconds a record is kept after every group has read it (audit: after it was written)."""
    partitions: Literal["all", "one"] = "all"


_ROWS = (
    Topic("links.discovered", (m.DiscoveredLinks,), (PARSER, FRONTIER, STORER, "cli"), (FRONTIER,), "target host"),
    Topic("urls.to_fetch", (m.FetchTask,), (FRONTIER,), (FETCHER,), "host", keep=1 * DAY),
    Topic("pages.fetched", (m.FetchedPage, m.NotModified), (FETCHER,), (PARSER, STORER), "host"),
    Topic("fetch.results", (m.FetchResult,), (FETCHER, FRONTIER), (FRONTIER, STORER), "host"),
    Topic("pages.parsed", (m.ParsedPage,), (PARSER,), (STORER,), "host"),
    Topic("frontier.changelog", (), (FRONTIER,), (), "state entry", kind="changelog"),
    Topic(
        "frontier.budget",
        (m.BudgetRequest, m.BudgetGrant, m.BudgetReturn),
        (FRONTIER,),
        (FRONTIER,),
        "partition",
        keep=0,
    ),
    Topic("crawl.progress", (m.Progress,), (FRONTIER,), (), "partition", kind="table"),
    Topic("crawl.control", (m.Control, m.Layout), ("cli", "api"), (), "crawl", kind="table", partitions="one"),
    Topic("dead.letters", (m.DeadLetter,), GROUPS, (), "none", kind="audit", keep=30 * DAY, partitions="one"),
)

TOPICS: dict[str, Topic] = {row.name: row for row in _ROWS}

EDGES: tuple[tuple[str, str], ...] = tuple((row.name, group) for row in _ROWS for group in row.readers)
"""Every (topic, group): what the completion rule scans."""


def kept_after_read(keep: float) -> dict[str, float]:
    """Work topic → seconds. `keep`, unless it is 0, stands for `KEEP`, and shortens what is kept for less."""
    work = [row for row in _ROWS if row.kind == "work"]
    if not keep:
        return {row.name: row.keep for row in work}
    return {row.name: keep if row.keep == KEEP else min(keep, row.keep) for row in work}


CONTROL_KEY = b"crawl"
LAYOUT_KEY = b"layout"


def inputs_of(group: str) -> tuple[str, ...]:
    return tuple(row.name for row in _ROWS if group in row.readers)


def partition_key(partition: int) -> bytes:
    """Key of a partition's own row in `crawl.progress`."""
    return b"%d" % partition
