"""kill -9 between any two steps leaves a workspace that a second delivery completes."""

import math
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace_schemas.settings import Settings
from headrace_storer.archive import Archive, Batch
from headrace_storer.durable import NoSync
from headrace_storer.index import open_index
from headrace_storer.store import Store
from tests.storer.kill_child import POINTS, records


def check_consistent(workspace: Path) -> tuple[int, int]:
    """Every file of the store is a whole body, every row's body is there. → bodies, rows"""
    store = Store(workspace, NoSync())
    files = [path for path in (workspace / "store/html").rglob("*") if path.is_file()]
    for path in files:
        store.read(str(path.relative_to(workspace)))
    index = open_index(Settings(), workspace, create=False)
    rows = list(index.rows())
    index.close()
    for row in rows:
        store.read(row.stored_path)
    return len(files), len(rows)


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_leaves_what_a_second_delivery_completes(tmp_path: Path, point: str) -> None:
    command = [sys.executable, "-m", "tests.storer.kill_child", str(tmp_path), point]
    child = subprocess.run(command, timeout=60, cwd=Path(__file__).parents[2], check=False)
    assert child.returncode == -signal.SIGKILL
    bodies, rows = check_consistent(tmp_path)
    expected = {"half a body": (9, 0), "some bodies": (9, 0), "rows": (30, 30)}
    assert (bodies, rows) == expected.get(point, (30, 0))

    archive = Archive(
        Store(tmp_path, NoSync()), lambda: open_index(Settings(), tmp_path, create=True), lambda: math.inf
    )
    archive.keep(Batch(records()))
    archive.close()
    assert check_consistent(tmp_path) == (30, 30)
    assert list((tmp_path / "store/tmp").iterdir()) == []
