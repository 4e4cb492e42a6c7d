"""A crawl that writes its metrics as CSV, and the same crawl where it cannot."""

import csv
from pathlib import Path

from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import WebSpec
from tests.e2e.crawls import Crawler, check_exact

WANTED = ("--delay", "0", "--set", "metrics.csv=true", "--set", "metrics.csv_interval=0.1")


def test_a_crawl_writes_its_figures_and_goes_on_in_the_same_file(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=3, pages=6)) as web:
        crawler = Crawler(tmp_path)
        assert crawler.crawl(web.seeds(), *WANTED, "--max-pages", "5") == 0, crawler.tail()
        assert crawler.crawl(web.seeds(), *WANTED) == 0, crawler.tail()
        check_exact(web, crawler.rows(), crawler.workspace)
    logs = sorted((crawler.workspace / "logs").iterdir())
    assert logs[0].name == "metrics-1.csv"
    values: dict[str, list[float]] = {}
    for path in logs:
        with path.open(newline="") as file:
            header, *rows = csv.reader(file)
        assert header == ["timestamp", "metric", "value"]
        for _, metric, value in rows:
            values.setdefault(metric, []).append(float(value))
    fetched = values["crawler_pages_fetched_total"]
    assert max(fetched[:-1]) >= 5, "the first process's last figures"
    assert fetched[-1] == len(crawler.rows()) - 5, "the second one's"
    assert values['crawler_urls{state="fetched"}'][-1] == len(crawler.rows())


def test_a_crawl_that_cannot_write_them_goes_on(tmp_path: Path) -> None:
    with RunningWeb(WebSpec(hosts=2, pages=4)) as web:
        crawler = Crawler(tmp_path)
        crawler.workspace.mkdir()
        (crawler.workspace / "logs").write_text("a file where the folder should be")
        assert crawler.crawl(web.seeds(), *WANTED) == 0, crawler.tail()
        check_exact(web, crawler.rows(), crawler.workspace)
    assert crawler.output.read_text().count("metrics are not written") == 1, crawler.output.read_text()
