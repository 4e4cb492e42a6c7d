"""Scrapy as one who knows it would run it here; run by the Python of the peers, so it imports nothing of ours.

`python scrapy_peer.py SEED` crawls from there to the end and stores nothing. As tuned as its own page on broad crawls
asks for: asyncio's reactor on uvloop, as many requests at once as ours, cookies, logs, telnet and the watch on memory
off, links by the cheapest of its selectors. Retries, redirects, compression and robots.txt stay: ours does them too.
"""

import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import scrapy
from scrapy.crawler import AsyncCrawlerProcess

SETTINGS: dict[str, Any] = {
    "USER_AGENT": "peer (+bench@example.org)",
    "CONCURRENT_REQUESTS": 128,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    "DOWNLOAD_DELAY": 0,
    "DOWNLOAD_TIMEOUT": 30,
    "ROBOTSTXT_OBEY": True,
    "COOKIES_ENABLED": False,
    "REFERER_ENABLED": False,
    "MEMUSAGE_ENABLED": False,
    "LOG_ENABLED": False,
    "LOG_INSTALL_ROOT_HANDLER": False,
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
    "ASYNCIO_EVENT_LOOP": "uvloop.Loop",
}


class Peer(scrapy.Spider):  # type: ignore[misc]
    name = "peer"
    seed: str
    reason = ""

    async def start(self) -> AsyncIterator[Any]:
        yield scrapy.Request(self.seed)

    def parse(self, response: Any) -> Iterator[Any]:
        for href in response.xpath("//a/@href").getall():  # a CSS selector is dearer, LinkExtractor dearest
            yield scrapy.Request(response.urljoin(href))

    def closed(self, reason: str) -> None:
        Peer.reason = reason


def main() -> int:
    process = AsyncCrawlerProcess(SETTINGS)
    process.crawl(Peer, seed=sys.argv[1])
    process.start()
    return int(Peer.reason != "finished")


if __name__ == "__main__":
    sys.exit(main())
