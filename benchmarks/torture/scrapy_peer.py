"""A crawl as Scrapy's own documentation makes it resumable (JOBDIR), for comparison; imports nothing of ours.

`python scrapy_peer.py JOBDIR ROWS DELAY SEED…`: every page a JSON line in ROWS, written at once.
"""

import hashlib
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import scrapy
from scrapy.crawler import AsyncCrawlerProcess

SETTINGS: dict[str, Any] = {
    "CONCURRENT_REQUESTS": 128,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
    "RANDOMIZE_DOWNLOAD_DELAY": False,
    "ROBOTSTXT_OBEY": True,
    "USER_AGENT": "torture (torture@example.org)",
    "LOG_LEVEL": "WARNING",
    "TELNETCONSOLE_ENABLED": False,
    "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
}


class Peer(scrapy.Spider):  # type: ignore[misc]
    name = "peer"
    rows: int

    def parse(self, response: Any) -> Iterator[Any]:
        row = {"url": response.url, "status": response.status, "sha256": hashlib.sha256(response.body).hexdigest()}
        os.write(self.rows, json.dumps(row).encode() + b"\n")
        for href in response.css("a::attr(href)").getall():
            if not href.startswith("mailto:"):
                yield response.follow(href)


def main() -> None:
    jobdir, rows, delay, *seeds = sys.argv[1:]
    file = os.open(rows, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    process = AsyncCrawlerProcess(SETTINGS | {"JOBDIR": jobdir, "DOWNLOAD_DELAY": float(delay)})
    process.crawl(Peer, start_urls=seeds, rows=file)
    process.start()


if __name__ == "__main__":
    main()
