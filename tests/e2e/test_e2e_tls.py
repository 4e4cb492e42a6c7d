"""A whole crawl over TLS: certificates are checked, and the second look is conditional."""

import shutil
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import Redirects, WebSpec
from tests.e2e.crawls import Crawler

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="the web makes its certificate with openssl")
SPEC = WebSpec(
    hosts=8, pages=12, size=2_000, tls=True, validators=True, gzip=True, redirects=Redirects(inside=0.1, across=0.1)
)


@pytest.mark.parametrize("client", ["httptools", "pyreqwest", "httpx"])
def test_a_web_over_tls_is_crawled_exactly_and_asked_again_conditionally(tmp_path: Path, client: str) -> None:
    with RunningWeb(SPEC) as web:
        crawler = Crawler(tmp_path, SSL_CERT_FILE=str(web.ca), HEADRACE_FETCH__CLIENT=client)
        assert crawler.crawl([web.url()], "--delay", "0.05") == 0, crawler.tail()
        found = {row["url"]: int(row["http_status"]) for row in crawler.rows()}
        assert found == {page.url: page.status for page in web.expected()}
        before = len(web.requests())
        assert crawler.crawl([web.url()], "--delay", "0.05", "--refresh") == 0, crawler.tail()
        again = Counter(request.status for request in web.requests()[before:])
        assert again == Counter({304: sum(status == 200 for status in found.values())})
        assert crawler.run("politeness", "prove").returncode == 0


def test_a_certificate_nobody_vouches_for_closes_its_hosts(tmp_path: Path) -> None:
    with RunningWeb(SPEC) as web:
        crawler = Crawler(tmp_path)
        assert crawler.crawl([web.url()], "--delay", "0", "--set", "retry.base=0.05") == 0, crawler.tail()
        assert crawler.status()["failed_by"] == {"robots_unavailable": 1}
        assert not web.requests()
