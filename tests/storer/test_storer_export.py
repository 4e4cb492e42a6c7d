"""Rows as scripts and people get them."""

import csv
import io
import json
from collections.abc import Iterator

import pytest

from headrace_storer.export import write_rows
from headrace_storer.views import PageRow

FIELDS = [
    "timestamp",
    "url",
    "page_type",
    "depth",
    "referrer",
    "http_status",
    "content_type",
    "encoding",
    "content_sha256",
    "content_bytes",
    "stored_path",
    "etag",
    "last_modified",
    "fetch_latency_ms",
    "retries",
    "proxy_id",
    "metadata",
]


def row(url: str = "http://site.test/", **metadata: object) -> PageRow:
    return PageRow(
        timestamp="2023-11-14T22:13:21.250Z",
        url=url,
        page_type="page",
        depth=1,
        referrer="",
        http_status=200,
        content_type="text/html",
        encoding="utf-8",
        content_sha256="0" * 64,
        content_bytes=12_345,
        stored_path="store/html/00/00/" + "0" * 64 + ".html.zst",
        etag='"quoted, with comma"',
        last_modified="",
        fetch_latency_ms=9,
        retries=0,
        proxy_id="",
        metadata=json.dumps(metadata),
    )


def test_the_fields_are_these_seventeen_in_this_order() -> None:
    assert list(PageRow.FIELDS) == FIELDS
    assert len(FIELDS) == 17


def test_csv_reads_back_as_it_was() -> None:
    rows = [row(title='a "title"\nin two lines, é'), row("http://site.test/2")]
    out = io.StringIO(newline="")
    write_rows(rows, "csv", out)
    out.seek(0)
    reader = csv.DictReader(out)
    back = list(reader)
    assert reader.fieldnames == FIELDS
    assert back == [{name: str(getattr(r, name)) for name in FIELDS} for r in rows]
    assert json.loads(back[0]["metadata"])["title"] == 'a "title"\nin two lines, é'


def test_jsonl_is_one_object_a_line_with_metadata_as_an_object() -> None:
    out = io.StringIO()
    write_rows([row(title="line\u2028separator\n"), row()], "jsonl", out)
    lines = out.getvalue().split("\n")
    assert len(lines) == 3
    first = json.loads(lines[0])
    assert list(first) == FIELDS
    assert first["metadata"] == {"title": "line\u2028separator\n"}
    assert first["http_status"] == 200


def test_a_table_shows_the_readable_part_and_no_control_characters() -> None:
    out = io.StringIO()
    rows = [row(f"http://site.test/{n}", title="[bold]x[/bold] \x1b[31mred\u202e") for n in range(450)]
    write_rows(rows, "table", out)
    text = out.getvalue()
    assert text.count("status") == 1
    assert "http://site.test/449" in text
    assert "[bold]x[/bold]" in text
    assert "12,345" in text
    assert "\x1b" not in text
    assert "\u202e" not in text


@pytest.mark.parametrize("name", ["csv", "jsonl", "table"])
def test_an_export_takes_rows_as_they_come(name: str) -> None:
    taken = 0

    def rows() -> Iterator[PageRow]:
        nonlocal taken
        for _ in range(1_000):
            taken += 1
            yield row()

    class Out(io.StringIO):
        first_write_after = 0

        def write(self, text: str, /) -> int:
            if "site.test" in text and not self.first_write_after:
                self.first_write_after = taken
            return super().write(text)

    out = Out()
    write_rows(rows(), name, out)  # type: ignore[arg-type]
    assert 0 < out.first_write_after <= 200


def test_an_empty_index_exports_a_header_and_nothing_more() -> None:
    out = io.StringIO()
    write_rows([], "csv", out)
    assert out.getvalue() == ",".join(FIELDS) + "\n"
    for name in ("jsonl", "table"):
        write_rows([], name, io.StringIO())
