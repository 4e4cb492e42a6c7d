"""What a process tells of itself."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from headrace_runtime.vitals import Children, Vitals, release


def test_the_release_and_the_room_on_the_disk_are_shown(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    Vitals(registry, ["parser"], tmp_path)
    assert registry.get_sample_value("headrace_build_info", {"service": "parser", "version": release()}) == 1
    assert registry.get_sample_value("headrace_disk_total_bytes") == shutil.disk_usage(tmp_path).total
    free = registry.get_sample_value("headrace_disk_free_bytes")
    assert free is not None
    assert 0 < free <= shutil.disk_usage(tmp_path).total


def test_a_disk_that_is_gone_breaks_nothing(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    Vitals(registry, [], tmp_path / "gone")
    free = registry.get_sample_value("headrace_disk_free_bytes")
    assert free is not None
    assert free != free, "NaN"


def test_cpu_of_children_never_falls_when_one_ends() -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("no /proc here")
    registry = CollectorRegistry()
    child = subprocess.Popen(
        [sys.executable, "-c", "sum(range(10_000_000)); print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    Children(lambda: [child.pid], registry)
    assert child.stdout is not None
    child.stdout.readline()
    living = registry.get_sample_value("headrace_children_cpu_seconds_total")
    resident = registry.get_sample_value("headrace_children_resident_memory_bytes")
    child.communicate(b"\n")
    ended = registry.get_sample_value("headrace_children_cpu_seconds_total")
    assert resident is not None
    assert resident > 1 << 20
    assert living is not None
    assert ended is not None
    assert 0 < living <= ended + 0.02  # two clock ticks: /proc counts in those
    assert registry.get_sample_value("headrace_children_resident_memory_bytes") == 0
