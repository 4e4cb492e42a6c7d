"""Scrapy's downloader alone, for comparison; run by the Python of the peers, so it imports nothing of ours.

No scheduler, spider callbacks or robots.txt: a queue for each host, drained by as many requests at once as the fetcher
may make, straight into the downloader. `python scrapy_peer.py KIND WARM URLS`: the latter two are files with a URL a
line; prints what it cost as JSON. Kinds:
default  as Scrapy comes
bare     without all that a setting can take out of the downloader's way: the least it can cost
aiohttp  bare, and with Scrapy's aiohttp handler, which it calls experimental
engine   as Scrapy comes, and with its scheduler, engine and a callback that does nothing
"""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import scrapy
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.utils.defer import maybe_deferred_to_future

AIOHTTP = "scrapy.core.downloader.handlers._aiohttp.AiohttpDownloadHandler"
CONCURRENCY = 128
SETTINGS: dict[str, Any] = {
    "CONCURRENT_REQUESTS": CONCURRENCY,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    "DOWNLOAD_DELAY": 0,
    "DOWNLOAD_TIMEOUT": 30,
    "ROBOTSTXT_OBEY": False,
    "LOG_ENABLED": False,
    "LOG_INSTALL_ROOT_HANDLER": False,
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
    "ASYNCIO_EVENT_LOOP": "uvloop.Loop",
}
BARE = dict.fromkeys(
    (
        *("COOKIES_ENABLED", "HTTPPROXY_ENABLED", "METAREFRESH_ENABLED", "REDIRECT_ENABLED", "RETRY_ENABLED"),
        *("DOWNLOADER_STATS", "COMPRESSION_ENABLED", "MEMUSAGE_ENABLED"),
    ),
    False,
)
KINDS: dict[str, dict[str, Any]] = {
    "default": {},
    "bare": BARE,
    "aiohttp": BARE | {"DOWNLOAD_HANDLERS": dict.fromkeys(("http", "https"), AIOHTTP)},
    "engine": {},
}


class Peer(scrapy.Spider):  # type: ignore[misc]
    name = "peer"
    kind: str
    warm: str
    urls: str

    async def start(self) -> AsyncIterator[Any]:
        await self._fetch(_by_host(self.warm))
        hosts = _by_host(self.urls)
        self._outcomes: Counter[str] = Counter()
        self._received = 0
        self._cpu, self._began = time.process_time(), time.monotonic()
        if self.kind == "engine":
            for urls in zip(*hosts, strict=True):
                for url in urls:
                    yield scrapy.Request(url)
        else:
            await self._fetch(hosts)

    def parse(self, response: Any) -> None:
        self._outcomes[str(response.status)] += 1
        self._received += len(response.body)

    def closed(self, reason: str) -> None:
        cpu, seconds = time.process_time() - self._cpu, time.monotonic() - self._began
        print(json.dumps({"cpu": cpu, "seconds": seconds, "outcomes": self._outcomes, "bytes": self._received}))

    async def _fetch(self, hosts: list[list[str]]) -> None:
        self._outcomes, self._received = Counter(), 0
        downloader = self.crawler.engine.downloader
        places = asyncio.Semaphore(CONCURRENCY)

        async def one_host(urls: list[str]) -> None:
            for url in urls:
                async with places:
                    self.parse(await maybe_deferred_to_future(downloader.fetch(scrapy.Request(url))))

        await asyncio.gather(*map(one_host, hosts))


def _by_host(path: str) -> list[list[str]]:
    hosts: dict[str, list[str]] = {}
    for url in Path(path).read_text().split():
        hosts.setdefault(url.split("/", 3)[2], []).append(url)
    return list(hosts.values())


def main() -> None:
    kind, warm, urls = sys.argv[1:]
    process = AsyncCrawlerProcess(SETTINGS | KINDS[kind])
    process.crawl(Peer, kind=kind, warm=warm, urls=urls)
    process.start()


if __name__ == "__main__":
    main()
