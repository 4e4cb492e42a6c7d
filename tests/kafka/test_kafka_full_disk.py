"""The disk with the local copies of the state is full: the owner waits, says so, and goes on once there is room."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace_runtime.clock import ManualClock
from headrace_runtime.streams.kafka.store import LocalState, StateOptions
from headrace_runtime.streams.seams import Lane, Send, Unit
from headrace_schemas.errors import Unavailable
from tests.contract.serving import serving, until, until_read
from tests.kafka.place import Place

LINKS, TASKS = "links.discovered", "urls.to_fetch"
MIB = 1 << 20


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A disk of 16 MiB."""
    if os.geteuid() != 0 or not sys.platform.startswith("linux"):
        pytest.skip("needs to mount a small disk")
    disk = tmp_path / "small"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", str(disk)], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.fixture
def filler(small: Path) -> Path:
    return small / "filler"


def fill(filler: Path) -> None:
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(bytes(64 << 10)):
            pass


async def opened(folder: Path) -> LocalState:
    return await LocalState.open(folder / "frontier-0", "c/log/0", StateOptions(), ManualClock())


def write_on(state: LocalState) -> None:
    for _ in range(100):
        state.apply([(b"%d" % state.offset, os.urandom(MIB // 4))], state.offset + 1)


async def test_a_copy_on_a_full_disk_is_kept_and_goes_on_where_it_was(small: Path, filler: Path) -> None:
    state = await opened(small)
    state.apply([(b"a", b"1")], 5)
    fill(filler)
    with pytest.raises(Unavailable, match="No space left on device"):
        write_on(state)
    kept = state.offset
    with pytest.raises(Unavailable, match="cannot be written"):
        write_on(state)
    assert state.offset == kept
    state.close()
    with pytest.raises(Unavailable, match="No space left on device"):
        await opened(small)
    filler.unlink()
    state = await opened(small)
    assert state.offset == kept
    assert state.get([b"a"]) == [b"1"]
    state.close()


async def test_a_new_copy_on_a_full_disk_is_a_line(small: Path, filler: Path) -> None:
    fill(filler)
    with pytest.raises(Unavailable, match=r"the state in .*frontier-0 cannot be written"):
        await opened(small)
    filler.unlink()
    (await opened(small)).close()


@pytest.mark.kafka
async def test_the_owner_of_state_waits_for_room_and_loses_nothing(
    place: Place, small: Path, filler: Path, caplog: pytest.LogCaptureFixture
) -> None:
    padding = os.urandom(MIB // 4)

    async def tally(lane: Lane) -> None:
        while lane.stopping is None:
            records = await lane.poll(1, 0.1)
            unit = Unit(lane.state)
            for record in records:
                count = int(unit.get([b"count"])[0] or b"0") + 1
                unit.put(b"count", b"%d" % count)
                unit.put(record.value, padding)
                unit.send(Send(TASKS, lane.partition, b"%d" % count))
            unit.done.extend(records)
            if records:
                await lane.commit(unit)

    async with replace(place, folder=small).opened() as streams:
        async with serving(streams, "frontier", [LINKS], tally, stateful=True) as member:
            await until(lambda: len(member.lanes) == place.partitions)
            fill(filler)
            await streams.publish([Send(LINKS, 0, b"%d" % i) for i in range(12)])
            await until(lambda: member.stalled and "No space left on device" in member.stalled.why)
            await asyncio.sleep(3.0)  # it tries again and again
            said = [record for record in caplog.records if record.name.startswith("headrace")]
            assert 0 < len(said) <= 6, [vars(record) for record in said]
            filler.unlink()
            await until_read(streams, [(LINKS, "frontier")])
            await until(lambda: member.stalled is None)
    assert [int(record.value) for record in await place.read_all(TASKS)] == list(range(1, 13))
    shutil.rmtree(small / "state")
