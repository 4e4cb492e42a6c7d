"""What a worker does with a frame: decode, decompress, parse, encode. Knows nothing of processes."""

import time
from collections.abc import Callable, Iterable
from typing import assert_never

import msgspec
import zstandard

from headrace_parser.frames import Frame, Hello, ParsedReply, Reply
from headrace_parser.page import Parsed, ParseLimits
from headrace_schemas import codec
from headrace_schemas.errors import Poison, TooNew
from headrace_schemas.messages import DiscoveredLinks, FetchedPage, Link, NotModified
from headrace_schemas.texts import Packer
from headrace_schemas.urls import Canonicaliser, Found, Partitioner

Parse = Callable[[FetchedPage, bytes, ParseLimits, Canonicaliser], Parsed]

MAX_MESSAGE = 1024 * 1024  # characters of URLs in one message of links; the topic's own limit is 16 MiB


class Bench:
    def __init__(self, hello: Hello, parse: Parse) -> None:
        self._parse = parse
        self._limits = hello.limits
        self._canonicaliser = Canonicaliser(hello.rules)
        self._partitioner = Partitioner(hello.partitions, hello.politeness_key)
        self._zstd = zstandard.ZstdDecompressor()
        self._packer = Packer()

    def work(self, frame: Frame, begun: Callable[[int], None]) -> Reply:
        """`begun(i)` is called before page i is touched."""
        links = Links(self._partitioner, frame.revision)
        pages = []
        for index, value in enumerate(frame.values):
            begun(index)
            reply = self._reply(value, frame, links)
            pages.append(reply if frame.merge else msgspec.structs.replace(reply, links=links.take()))
        if frame.merge:
            pages[0] = msgspec.structs.replace(pages[0], links=links.take())
        return Reply(frame.number, pages)

    def _reply(self, value: bytes, frame: Frame, links: "Links") -> ParsedReply:
        start = time.perf_counter()
        try:
            message: FetchedPage | NotModified = codec.decode("pages.fetched", value)
        except Poison as error:
            return ParsedReply("poison", why=str(error))
        except TooNew as error:
            return ParsedReply("too_new", why=str(error))
        match message:
            case NotModified():
                return ParsedReply("not_modified")
            case FetchedPage():
                parsed, why = self._parsed(message)
            case _:
                assert_never(message)
        revision = max(frame.revision, codec.revision_of(value))
        links.add(message, parsed.links, revision)
        links.reject(message, parsed.rejected)
        encoded = codec.encode(parsed.message(message, frame.at, self._packer), revision)
        return ParsedReply(
            parsed.verdict, encoded, found=len(parsed.outlinks), seconds=time.perf_counter() - start, why=why
        )

    def _parsed(self, page: FetchedPage) -> tuple[Parsed, str]:
        """With the reason to dead-letter it, if there is one. MemoryError passes: the process is not to be trusted
        after it."""
        try:
            body = self._body(page)
        except (zstandard.ZstdError, Poison) as error:
            return Parsed("unparsable"), f"its body cannot be had: {error}"
        try:
            return self._parse(page, body, self._limits, self._canonicaliser), ""
        except MemoryError:
            raise
        except Exception as error:  # a bug here, or in a user's code: this page's loss, nobody else's
            return Parsed("crashed"), f"{type(error).__name__}: {error}"

    def _body(self, page: FetchedPage) -> bytes:
        """Bounded before a byte of it is made: a frame names its own size, and 10 KB can name 10 GB."""
        limit = self._limits.max_bytes
        named = zstandard.frame_content_size(page.body)
        if max(page.size, named) > limit:
            raise Poison(f"{max(page.size, named)} bytes decompressed; the limit is {limit}")
        return self._zstd.decompress(page.body, max_output_size=max(1, page.size))


class Links:
    """Links of one or more pages, gathered into one message per partition and run."""

    def __init__(self, partitioner: Partitioner, revision: int) -> None:
        self._partitioner, self._floor = partitioner, revision
        self._revision = revision
        self._groups: dict[tuple[int, int], list[Link]] = {}
        self._rejected: dict[tuple[int, int], dict[str, int]] = {}

    def add(self, page: FetchedPage, found: Iterable[Found], revision: int) -> None:
        partition, groups, depth = self._partitioner.partition, self._groups, page.depth + 1
        self._revision = max(self._revision, revision)
        for url, key in found:
            group = (partition(url), page.run)
            if group not in groups:
                groups[group] = []
            groups[group].append(Link(url, key, depth, page.url))

    def reject(self, page: FetchedPage, rejected: dict[str, int]) -> None:
        """They have no partition of their own: the page's counts them."""
        if rejected:
            group = (self._partitioner.partition(page.url), page.run)
            self._groups.setdefault(group, [])
            counts = self._rejected.setdefault(group, {})
            for reason, count in rejected.items():
                counts[reason] = counts.get(reason, 0) + count

    def take(self) -> list[tuple[int, bytes]]:
        """(partition, encoded `DiscoveredLinks`) of all added since the last time."""
        taken = []
        for (partition, run), links in self._groups.items():
            rejected = self._rejected.get((partition, run), {})
            for part in _parts(links):
                message = DiscoveredLinks(tuple(part), "page", run, rejected)
                taken.append((partition, codec.encode(message, self._revision)))
                rejected = {}
        self._groups, self._rejected, self._revision = {}, {}, self._floor
        return taken


def _parts(links: list[Link]) -> Iterable[list[Link]]:
    """At least one, if only an empty one."""
    part: list[Link] = []
    size = 0
    for link in links:
        part.append(link)
        size += len(link.url) + len(link.referrer)
        if size > MAX_MESSAGE:
            yield part
            part, size = [], 0
    if part or not links:
        yield part
