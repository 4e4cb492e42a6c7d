"""`headrace pages` and `headrace show`: the index and the store, with neither engine nor lock."""

import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer

from headrace.commands.options import DEFAULT_WORKSPACE, ConfigOption, SetOption, WorkspaceOption, load
from headrace.invocation import how_to
from headrace_schemas.errors import UsageError

if TYPE_CHECKING:
    from headrace_storer.views import PageRow

Format = Literal["table", "csv", "jsonl"]

_REQUESTS = 10  # of the history of a URL, the last


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: headrace pages --format csv --output pages.csv")(pages)
    app.command(epilog="Example: headrace show https://example.org/ --text")(show)


def pages(
    format: Annotated[Format, typer.Option(help="How to print them.")] = "table",
    output: Annotated[Path | None, typer.Option(metavar="F", help="Write to this file instead.")] = None,
    host: Annotated[str | None, typer.Option(help="Only pages of this host.")] = None,
    status: Annotated[int | None, typer.Option(help="Only this HTTP status.")] = None,
    limit: Annotated[int | None, typer.Option(help="At most this many rows.")] = None,
    config: ConfigOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    set_: SetOption = None,
) -> None:
    """The index, one row per URL answered or finally failed."""
    from headrace_storer.export import write_rows
    from headrace_storer.index import open_index

    settings, _ = load(config, set_)
    index = open_index(settings, workspace, create=False)
    written = 0

    def counted(rows: "Iterable[PageRow]") -> "Iterator[PageRow]":
        nonlocal written
        for row in rows:
            written += 1
            yield row

    try:
        with _target(output) as out:
            write_rows(counted(index.rows(host=host, status=status, limit=limit)), format, out)
    finally:
        index.close()
    if not written:
        yet = f"no pages yet: `{how_to('status', workspace)}` says how far the crawl is"
        chosen = host is not None or status is not None or limit == 0
        print(f"headrace: {'no page is like that' if chosen else yet}", file=sys.stderr)


@contextmanager
def _target(output: Path | None) -> Iterator[TextIO]:
    """A file appears whole or not at all."""
    if output is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    part = output.with_name(output.name + ".part")
    try:
        with part.open("w", encoding="utf-8", newline="") as out:
            yield out
        part.replace(output)
    except OSError as error:
        raise UsageError(f"{output} cannot be written: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)


def show(
    url: Annotated[str, typer.Argument(metavar="URL")],
    html: Annotated[bool, typer.Option("--html", help="Its body as served.")] = False,
    text: Annotated[bool, typer.Option("--text", help="Its visible text.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Its body as Markdown.")] = False,
    config: ConfigOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    set_: SetOption = None,
) -> None:
    """Everything known of one URL, and its stored body."""
    from headrace_schemas.urls import BadUrl, Canonicaliser
    from headrace_storer.index import open_index

    settings, _ = load(config, set_)
    try:
        found = Canonicaliser(settings.canonical).find(url)
    except BadUrl as error:
        raise UsageError(f"{url!r} is no http(s) URL ({error.reason})") from None
    index = open_index(settings, workspace, create=False)
    try:
        detail = index.get(found.key)
        history = index.fetches(found.key, limit=_REQUESTS)
    finally:
        index.close()
    wants_body = html or text or markdown
    if detail is None and (wants_body or not history):
        why = how_to(f"explain {shlex.quote(found.url)}", workspace)
        raise UsageError(f"{found.url} is not in the index of {workspace}: `{why}` says what is known of it")
    if detail is None:  # a robots.txt or a sitemap: asked for, and no page
        print(f"{'url':<18} {found.url}")
        _print_history(history)
    elif wants_body:
        sys.stdout.buffer.write(_body(detail, workspace, html, text))
        sys.stdout.flush()
    else:
        _print(detail)
        _print_history(history)


def _body(detail: Any, workspace: Path, html: bool, text: bool) -> bytes:
    from headrace_parser.markdown import markdown_of
    from headrace_parser.page import text_of
    from headrace_storer.durable import NoSync
    from headrace_storer.store import Store

    if not detail.row.content_sha256:
        raise UsageError(f"no body is stored for {detail.row.url}")
    body = Store(workspace, NoSync()).read(detail.row.content_sha256)
    if html:
        return body
    if text:
        return text_of(body, detail.row.encoding or "").encode() + b"\n"
    return markdown_of(body, detail.row.encoding or "", detail.row.url).encode() + b"\n"


def _print(detail: Any) -> None:
    row = detail.row
    for name in row.FIELDS:
        value = getattr(row, name)
        if value not in (None, "", 0) or name == "depth":
            print(f"{name:<18} {value}")
    for name, value in detail.headers:
        print(f"  {name}: {value}")
    print(f"{'outlinks':<18} {len(detail.outlinks)}")
    for link in detail.outlinks[:20]:
        print(f"  {link}")
    if len(detail.outlinks) > 20:
        print(f"  … {len(detail.outlinks) - 20} more")
    if detail.text:
        print(f"{'text':<18} {detail.text[:300]}{' …' if len(detail.text) > 300 else ''}")


def _print_history(history: list[Any]) -> None:
    """One line a request, oldest first. A phase that the client could not tell apart is left out."""
    from headrace_storer.views import timestamp

    if not history:
        return
    print(
        f"{'requests':<18} the last {len(history)}" if len(history) == _REQUESTS else f"{'requests':<18} {len(history)}"
    )
    for fetch in history:
        phases = (("connect", fetch.connect_ms), ("first byte", fetch.first_byte_ms), ("body", fetch.body_ms))
        spent = ", ".join(f"{name} {ms}" for name, ms in phases if ms >= 0)
        start = f"  {timestamp(fetch.at)}  {fetch.status or '–':>3}"
        if fetch.kind == "hop":
            print(f"{start}  hop to {fetch.host}")
            continue
        print(
            f"{start}  {fetch.outcome}  attempt {fetch.attempt}"
            f"  {fetch.latency_ms} ms ({spent})  {fetch.received:,} bytes {fetch.protocol}".rstrip()
        )
