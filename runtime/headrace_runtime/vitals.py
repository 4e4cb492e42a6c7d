"""What every process tells of itself, whatever it does: its version, the room on its disk, its children."""

import os
import resource
import shutil
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import get_args

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace_runtime.control import ControlWatch
from headrace_schemas.messages import Mode

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def release() -> str:
    try:
        return version("headrace")
    except PackageNotFoundError:  # run from a checkout that was never installed
        return "0"


class Vitals:
    """Asked when someone looks, and free between."""

    def __init__(self, registry: CollectorRegistry, services: Iterable[str], workspace: Path) -> None:
        info = Gauge(
            "headrace_build_info", "1, with the release this process runs", ["service", "version"], registry=registry
        )
        for service in services:
            info.labels(service, release()).set(1)
        free = Gauge("headrace_disk_free_bytes", "Bytes free on the workspace's disk", registry=registry)
        free.set_function(lambda: _disk(workspace, "free"))
        total = Gauge("headrace_disk_total_bytes", "Bytes the workspace's disk holds", registry=registry)
        total.set_function(lambda: _disk(workspace, "total"))
        self._mode = Gauge(
            "headrace_crawl_mode", "1 for what the crawl is told to do, 0 for the rest", ["mode"], registry=registry
        )

    def watch(self, control: ControlWatch) -> None:
        for mode in get_args(Mode):
            self._mode.labels(mode).set_function(partial(_is, control, mode))


def _is(control: ControlWatch, mode: Mode) -> float:
    return float(control.now.mode == mode)


def _disk(workspace: Path, figure: str) -> float:
    try:
        return float(getattr(shutil.disk_usage(workspace), figure))
    except OSError:  # the disk is gone, which other figures say
        return float("nan")


class Children(Collector):
    """CPU and memory of child processes, beside the `process_` series, which are of the main one."""

    def __init__(self, pids: Callable[[], Iterable[int]], registry: CollectorRegistry) -> None:
        self._pids = pids
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu, resident = ended.ru_utime + ended.ru_stime, 0
        for pid in self._pids():
            seconds, size = _of(pid)
            cpu, resident = cpu + seconds, resident + size
        yield CounterMetricFamily("headrace_children_cpu_seconds", "CPU seconds of child processes", value=cpu)
        yield GaugeMetricFamily(
            "headrace_children_resident_memory_bytes", "Memory that child processes hold", value=float(resident)
        )


def _of(pid: int) -> tuple[float, int]:
    """→ CPU seconds, resident bytes; nothing where there is no /proc, or no such process any more."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0.0, 0
    return (int(fields[11]) + int(fields[12])) / _TICKS, int(fields[21]) * _PAGE
