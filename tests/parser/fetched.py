"""Messages as the fetcher sends them, and the parts a pool is made of."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import zstandard
from prometheus_client import CollectorRegistry

from headrace_parser.frames import Hello, ParsedReply
from headrace_parser.page import Parsed, ParseLimits, parse
from headrace_parser.pool import ParserPool
from headrace_parser.service import PARSE, pool_of
from headrace_runtime.clock import Clock, SystemClock
from headrace_schemas import codec
from headrace_schemas.messages import FetchedPage, ParsedPage
from headrace_schemas.settings import ParserSettings, Settings, StreamSettings
from headrace_schemas.urls import Canonicaliser, CanonicalRules

HOSTILE = "tests.parser.hostile:parse"
URL = "http://site.test/dir/page.html"


def fetched(
    body: bytes = b"<p>hello</p>",
    url: str = URL,
    *,
    fetch_id: int = 1,
    content_type: str = "text/html",
    charset: str = "",
    headers: tuple[tuple[str, str], ...] = (),
    depth: int = 0,
    run: int = 1,
) -> FetchedPage:
    return FetchedPage(
        fetch_id,
        url,
        Canonicaliser().key(url),
        200,
        1_000.0,
        zstandard.compress(body),
        hashlib.sha256(body).hexdigest(),
        len(body),
        headers=headers,
        content_type=content_type,
        charset=charset,
        depth=depth,
        run=run,
    )


def parsed(body: bytes | str, url: str = URL, limits: ParseLimits | None = None, **page: object) -> Parsed:
    data = body.encode() if isinstance(body, str) else body
    message = fetched(data, url, **page)  # type: ignore[arg-type]
    return parse(message, data, limits or ParseLimits(), Canonicaliser())


def hello(partitions: int = 1, limits: ParseLimits | None = None) -> Hello:
    return Hello(PARSE, limits or ParseLimits(), CanonicalRules(), partitions, "host", 256)


def message_of(reply: ParsedReply) -> ParsedPage:
    page: ParsedPage = codec.decode("pages.parsed", reply.parsed)
    return page


def settings(*, workers: int = 1, deadline: float = 30.0, memory: int = 256, partitions: int = 1) -> Settings:
    return Settings(
        parser=ParserSettings(workers=workers, deadline=deadline, memory=memory),
        streams=StreamSettings(partitions=partitions),
    )


@asynccontextmanager
async def running(
    chosen: Settings | None = None,
    *,
    parse: str = HOSTILE,
    clock: Clock | None = None,
    registry: CollectorRegistry | None = None,
) -> AsyncIterator[ParserPool]:
    pool = pool_of(chosen or settings(), clock or SystemClock(), registry or CollectorRegistry(), parse=parse)
    await pool.start()
    try:
        yield pool
    finally:
        await pool.close()
