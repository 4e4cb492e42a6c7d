"""Metrics as CSV: what one process counts, written every so often."""

import asyncio
import csv
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram

from headrace_runtime.metrics_csv import MetricsCsv


def registry() -> CollectorRegistry:
    made = CollectorRegistry()
    Counter("pages", "Pages", ["host"], registry=made).labels('a"b').inc(3)
    Histogram("took_seconds", "Seconds", registry=made).observe(0.5)
    return made


def write(figures: MetricsCsv) -> None:
    figures.append(figures.lines())


def read(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_a_metric_is_written_as_prometheus_writes_it_and_histograms_without_buckets(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "m.csv"
    write(MetricsCsv(registry(), lambda: path, 10))
    header, *rows = read(path)
    assert header == ["timestamp", "metric", "value"]
    assert [row[1:] for row in rows] == [
        ['pages_total{host="a\\"b"}', "3"],
        ["took_seconds_count", "1"],
        ["took_seconds_sum", "0.5"],
    ]
    assert all(float(row[0]) > 1e9 for row in rows)


def test_a_second_process_of_the_same_run_goes_on_in_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    for _ in range(2):
        write(MetricsCsv(registry(), lambda: path, 10))
    rows = read(path)
    assert len(rows) == 1 + 2 * 3
    assert rows.count(["timestamp", "metric", "value"]) == 1


async def test_it_writes_again_and_again_and_a_last_time_at_the_stop(tmp_path: Path) -> None:
    path, stop = tmp_path / "m.csv", asyncio.Event()
    made = registry()
    writing = asyncio.create_task(MetricsCsv(made, lambda: path, 0.01).run(stop))
    async with asyncio.timeout(30):
        while not path.exists() or len(read(path)) < 10:
            await asyncio.sleep(0.01)
    Counter("late", "Counted just before the stop", registry=made).inc()
    stop.set()
    await writing
    assert read(path)[-1][1:] == ["late_total", "1"]


def test_a_folder_that_cannot_be_written_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "logs").write_text("a file where the folder should be")
    figures = MetricsCsv(registry(), lambda: tmp_path / "logs" / "m.csv", 10)
    for _ in range(3):
        write(figures)
    assert [record.getMessage() for record in caplog.records] == ["metrics are not written as CSV"]


def test_a_full_disk_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("no /dev/full here")
    figures = MetricsCsv(registry(), lambda: full, 10)
    for _ in range(3):
        write(figures)
    assert len(caplog.records) == 1
