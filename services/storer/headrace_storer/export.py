"""Rows for people and for scripts. Every format streams: an index larger than memory can be written."""

import csv
import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Literal, TextIO, assert_never

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace_storer.views import PageRow

Format = Literal["table", "csv", "jsonl"]

_CHUNK = 200  # rows laid out at once; the columns are as wide in every chunk
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]+")
"""Controls and direction marks: a page's title must not steer the reader's terminal."""


def write_rows(rows: Iterable[PageRow], format: Format, out: TextIO) -> None:
    """For CSV open `out` with newline="": values may hold line breaks of their own."""
    match format:
        case "csv":
            _write_csv(rows, out)
        case "jsonl":
            _write_jsonl(rows, out)
        case "table":
            _write_table(rows, out)
        case _:
            assert_never(format)


def _write_csv(rows: Iterable[PageRow], out: TextIO) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(PageRow.FIELDS)
    writer.writerows(msgspec.structs.astuple(row) for row in rows)


def _write_jsonl(rows: Iterable[PageRow], out: TextIO) -> None:
    for row in rows:
        fields: dict[str, Any] = msgspec.structs.asdict(row)
        fields["metadata"] = json.loads(row.metadata)
        out.write(json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n")


def _write_table(rows: Iterable[PageRow], out: TextIO) -> None:
    terminal = out.isatty()
    console = Console(file=out, width=None if terminal else 160, soft_wrap=False)
    for number, chunk in enumerate(_chunks(rows)):
        console.print(_table(chunk, header=number == 0))


def _chunks(rows: Iterable[PageRow]) -> Iterator[list[PageRow]]:
    iterator = iter(rows)
    first = True
    while (chunk := list(islice(iterator, _CHUNK))) or first:
        yield chunk
        first = False


def _table(rows: Iterable[PageRow], *, header: bool) -> Table:
    table = Table(show_header=header, box=None, pad_edge=False, expand=True)
    table.add_column("status", width=6, justify="right")
    table.add_column("bytes", width=10, justify="right")
    table.add_column("type", width=16, no_wrap=True, overflow="ellipsis")
    table.add_column("title", ratio=2, no_wrap=True, overflow="ellipsis")
    table.add_column("url", ratio=3, overflow="fold")
    for row in rows:
        title = json.loads(row.metadata).get("title", "")
        cells = (row.content_type, title, row.url)
        table.add_row(
            str(row.http_status or "–"),
            f"{row.content_bytes:,}" if row.content_sha256 else "",
            *(Text(_UNSEEN.sub(" ", cell)) for cell in cells),
        )
    return table
