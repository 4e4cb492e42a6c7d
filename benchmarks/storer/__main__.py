"""`python -m benchmarks.storer`: what a page costs the storer, part by part, in CPU of its one thread.

Its own parts on a fresh workspace, in one process, with the three records that each page of the web of `benchmarks.web`
brings: what the fetcher sends (its body packed), the result, and what the parser sends. No log, no lanes, no clock.
"""

import argparse
import hashlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import zstandard

from benchmarks.web.site import Site
from benchmarks.web.spec import WebSpec
from headrace_parser.page import ParseLimits, parse
from headrace_runtime.streams.seams import Record
from headrace_schemas import codec
from headrace_schemas.messages import Fetched, FetchedPage, FetchResult, Phases
from headrace_schemas.settings import IndexSettings, Settings, StreamSettings
from headrace_schemas.texts import SHORT
from headrace_schemas.urls import Canonicaliser
from headrace_storer.handler import Job, handle
from headrace_storer.index import open_index
from headrace_storer.service import open_store

SIZES = {"3 KB": WebSpec(size=3_000, spread=0.2, port=80), "50 KB": WebSpec(size=50_000, spread=0.9, port=80)}
PARTS = ("messages", "bodies", "rows")


def records(spec: WebSpec, pages: int, *, packed: bool) -> Iterator[tuple[Record, Record, Record]]:
    site, canonicaliser, limits = Site(spec), Canonicaliser(), ParseLimits()
    zstd = zstandard.ZstdCompressor(1)
    for number in range(pages):
        address = spec.address(number % spec.hosts)
        target = f"/p/{number // spec.hosts % (spec.pages - 1) + 1}"
        answer = site.answer(address, target, {})
        url = f"http://{address}:{spec.port}{target}?n={number}"
        body = answer.body + b"<!-- %d -->" % number  # each its own file
        at = 1_700_000_000.0 + number / 100
        key, sha256 = canonicaliser.key(url), hashlib.sha256(body).hexdigest()
        page = FetchedPage(
            number,
            url,
            key,
            200,
            at,
            zstd.compress(body),
            sha256,
            len(body),
            headers=answer.headers,
            content_type="text/html",
            charset="utf-8",
            depth=3,
            referrer=f"http://{address}:{spec.port}/",
            latency_ms=5,
        )
        result = FetchResult(
            number,
            url,
            key,
            Fetched(200, len(body), sha256),
            finished_at=at,
            host=address,
            asked_at=at,
            delay=1.0,
            phases=Phases(1, 2, 3),
            received=len(page.body),
        )
        parsed = parse(page, body, limits, canonicaliser).message(page, at)
        if packed and len(parsed.text) > SHORT and not parsed.packed_text:
            parsed = msgspec.structs.replace(parsed, text="", packed_text=zstd.compress(parsed.text.encode()))
        yield (
            Record("pages.fetched", 0, number, key, codec.encode(page), at),
            Record("fetch.results", 0, number, key, codec.encode(result), at),
            Record("pages.parsed", 0, number, key, codec.encode(parsed), at),
        )


def run(kept: Sequence[tuple[Record, ...]], batch: int, folder: str | None, settings: Settings) -> tuple[float, ...]:
    """→ microseconds of CPU a page for each part."""
    spent = [0.0] * len(PARTS)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        store = open_store(settings, Path(name))
        store.open(abandoned_before=0.0)
        index = open_index(settings, Path(name), create=True)
        for start in range(0, len(kept), batch):
            some = [record for page in zip(*kept[start : start + batch], strict=True) for record in page]
            ticks = [time.process_time()]
            jobs: list[Job] = [handle(record) for record in some]
            ticks.append(time.process_time())
            store.write_batch([job.body for job in jobs if job.body is not None])
            ticks.append(time.process_time())
            index.save([change for job in jobs for change in job.changes])
            ticks.append(time.process_time())
            for part in range(len(PARTS)):
                spent[part] += ticks[part + 1] - ticks[part]
        index.close()
    return tuple(1e6 * seconds / len(kept) for seconds in spent)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storer")
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument("--batch", type=int, default=50, help="pages that are stored at once")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", help="where the workspaces are made")
    parser.add_argument("--index", default="", help="index.url")
    parser.add_argument("--plain", action="store_true", help="text that is not packed")
    parser.add_argument("--sync", default="none", help="streams.sync")
    given = parser.parse_args()
    settings = Settings(index=IndexSettings(url=given.index), streams=StreamSettings(sync=given.sync))
    for size, spec in SIZES.items():
        kept = list(records(spec, given.pages, packed=not given.plain))
        rounds = [run(kept, given.batch, given.folder, settings) for _ in range(given.rounds)]
        best = [min(parts) for parts in zip(*rounds, strict=True)]
        told = ", ".join(f"{name} {cost:.1f}" for name, cost in zip(PARTS, best, strict=True))
        print(f"{size}: {told}; in all {min(map(sum, rounds)):.1f} µs of CPU a page", flush=True)


if __name__ == "__main__":
    main()
