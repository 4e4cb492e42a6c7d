"""Seeds, and the links that a refresh or a retry asks for again: everything a run starts from."""

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from headrace_runtime.streams.seams import Send, Streams
from headrace_schemas import codec
from headrace_schemas.errors import UsageError
from headrace_schemas.messages import Control, DiscoveredLinks, Link, LinkSource
from headrace_schemas.settings import Settings
from headrace_schemas.urls import BadUrl, Canonicaliser, Partitioner, as_found, is_address

BATCH = 200  # links a message


def read_seeds(given: Iterable[str], file: Path | None) -> list[str]:
    """As found, in order, without repeats; the first bad one is a `UsageError` that says where it stands."""
    named = [(raw, "on the command line") for raw in given]
    if file is not None:
        named += list(_lines(file))
    seeds: dict[str, None] = {}
    for raw, where in named:
        try:
            seeds[as_found(raw)] = None
        except BadUrl as error:
            raise UsageError(f"the seed {raw!r} {where} is no http(s) URL ({error.reason}){hint(raw)}") from None
    return list(seeds)


def _lines(file: Path) -> Iterator[tuple[str, str]]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the seeds file {file} cannot be read: {error}") from None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.partition(" #")[0].strip()
        if line and not line.startswith("#"):
            yield line, f"in {file} line {number}"


def hint(raw: str) -> str:
    """Of what was typed without a scheme."""
    if ":" in raw.split("/")[0].split(".")[0]:
        return ""
    try:
        return f"; did you mean {as_found('https://' + raw)} ?"
    except BadUrl:
        return ""


def need_contact(settings: Settings, hosts: Iterable[str], mode: str = "") -> None:
    """People whose sites we crawl must be able to reach who does it. Only a crawl that cannot leave private
    addresses goes without. `mode`: how the crawl was begun, where that is known."""
    if settings.contact:
        right_contact(settings)
        return
    if (settings.scope.mode or mode) != "all" and all(map(_private, hosts)):
        return
    raise UsageError(
        "a crawl of public hosts needs a contact for its User-Agent, so that site owners can reach you: "
        "--contact you@example.org (or a URL; setting `contact`)"
    )


def right_contact(settings: Settings) -> None:
    """One that is given; it stands within brackets of the User-Agent."""
    if any(ord(char) < 0x20 or char in "()" for char in settings.contact):
        raise UsageError(f"contact: {settings.contact!r} has characters that cannot stand in a User-Agent")


def _private(host: str) -> bool:
    return host == "localhost" or (is_address(host) and not ipaddress.ip_address(host.strip("[]")).is_global)


class Seeder:
    """Sends links as the parser does: both forms of a URL, to the partition of its host, under the run's id."""

    def __init__(self, streams: Streams, settings: Settings, control: Control) -> None:
        self._streams, self._control = streams, control
        self._canonicaliser = Canonicaliser(settings.canonical)
        self._partitioner = Partitioner(settings.partitions, settings.politeness.key)

    async def seeds(self, urls: Iterable[str]) -> int:
        return await self.links((Link(url, self._canonicaliser.key(url), 0) for url in urls), "seed")

    async def links(self, links: Iterable[Link], source: LinkSource) -> int:
        """Acknowledged when it returns; bounded memory however many there are."""
        waiting: dict[int, list[Link]] = defaultdict(list)
        count = 0
        for link in links:
            partition = self._partitioner.partition(link.url)
            waiting[partition].append(link)
            count += 1
            if len(waiting[partition]) >= BATCH:
                await self._send(partition, waiting.pop(partition), source)
        for partition, rest in waiting.items():
            await self._send(partition, rest, source)
        return count

    async def _send(self, partition: int, links: list[Link], source: LinkSource) -> None:
        message = DiscoveredLinks(tuple(links), source, self._control.run)
        value = codec.encode(message, self._control.revision)
        await self._streams.publish([Send("links.discovered", partition, value)])
