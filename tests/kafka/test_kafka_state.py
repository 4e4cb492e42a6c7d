"""The local copy of a partition's state is believed only while it can be right."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from headrace_runtime.clock import ManualClock
from headrace_runtime.streams.kafka import store
from headrace_runtime.streams.kafka.store import LocalState, StateOptions
from headrace_schemas.errors import WorkspaceBusy
from headrace_schemas.topics import DAY


async def opened(path: Path, clock: ManualClock, lineage: str = "c/log/0") -> LocalState:
    return await LocalState.open(path / "frontier-0", lineage, StateOptions(), clock)


async def test_a_copy_goes_on_where_it_was(tmp_path: Path) -> None:
    clock = ManualClock()
    state = await opened(tmp_path, clock)
    assert (state.offset, state.empty) == (0, True)
    state.apply([(b"a", b"1"), (b"b", b"2"), (b"c", None)], 17)
    state.apply([(b"a", None)], 19)
    state.close()

    clock.advance(3 * DAY)
    state = await opened(tmp_path, clock)
    assert (state.offset, state.empty, list(state.scan(b"", b"\xff"))) == (19, False, [(b"b", b"2")])
    state.close()


async def test_a_copy_older_than_half_the_life_of_a_deletion_is_thrown_away(tmp_path: Path) -> None:
    clock = ManualClock()
    state = await opened(tmp_path, clock)
    state.apply([(b"a", b"1")], 5)
    state.close()

    clock.advance(3.6 * DAY)
    state = await opened(tmp_path, clock)
    assert (state.offset, state.empty) == (0, True)
    state.close()


async def test_a_copy_of_another_changelog_is_thrown_away(tmp_path: Path) -> None:
    state = await opened(tmp_path, ManualClock())
    state.apply([(b"a", b"1")], 5)
    state.close()

    state = await opened(tmp_path, ManualClock(), "another cluster/log/0")
    assert (state.offset, state.empty) == (0, True)
    state.close()


async def test_a_copy_that_cannot_be_read_is_thrown_away(tmp_path: Path) -> None:
    state = await opened(tmp_path, ManualClock())
    state.apply([(b"a", b"1")], 5)
    state.close()
    (tmp_path / "frontier-0" / "CURRENT").write_text("nonsense\n")

    state = await opened(tmp_path, ManualClock())
    assert (state.offset, state.empty) == (0, True)
    state.close()


async def test_clearing_forgets_everything(tmp_path: Path) -> None:
    state = await opened(tmp_path, ManualClock())
    state.apply([(b"a", b"1"), (b"\xff\xff", b"2")], 5)
    state.clear()
    assert (state.offset, state.empty, state.get([b"a", b"\xff\xff"])) == (0, True, [None, None])
    state.close()


async def test_a_copy_that_another_process_holds_is_not_shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_BUSY_SECONDS", 0.3)
    holder = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import sys\nfrom rocksdict import Rdict, Options\n"
        "db = Rdict(sys.argv[1], Options(raw_mode=True))\n"
        "print('held', flush=True)\nsys.stdin.readline()\ndb.close()\n",
        str(tmp_path / "frontier-0"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    await holder.stdout.readline()
    with pytest.raises(WorkspaceBusy, match="frontier-0"):
        await opened(tmp_path, ManualClock())
    await holder.communicate(b"\n")
    (await opened(tmp_path, ManualClock())).close()
