"""The workspace is opened by one process, by the right one, or not at all."""

import asyncio
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from rocksdict import Options, Rdict

from headrace_runtime.clock import SystemClock
from headrace_runtime.streams.embedded import layout
from headrace_runtime.streams.embedded.database import Database
from headrace_runtime.streams.embedded.engine import EmbeddedStreams
from headrace_runtime.streams.seams import Lane, Send, Unit
from headrace_schemas.errors import FatalError, HeadraceError, LayoutMismatch, TooNew, UsageError, WorkspaceBusy
from tests.contract.serving import read, serving, until

ROOT = Path(__file__).parents[2]
TASKS = "urls.to_fetch"


async def opened(path: Path, *, partitions: int = 2, sync: str = "group", keep: float = 0.0) -> EmbeddedStreams:
    return await EmbeddedStreams.open(path, partitions=partitions, sync=sync, keep=keep, clock=SystemClock())


async def test_a_workspace_that_another_process_holds_is_refused_by_its_path(tmp_path: Path) -> None:
    holder = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import asyncio, sys\n"
        "from tests.contract.engines import open_from_spec\n"
        "async def hold():\n"
        "    streams = await open_from_spec(sys.argv[1])\n"
        "    print('held', flush=True)\n"
        "    await asyncio.to_thread(sys.stdin.readline)\n"
        "    await streams.close()\n"
        "asyncio.run(hold())\n",
        f"embedded:{tmp_path / 'log'}?partitions=2",
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    await holder.stdout.readline()
    with pytest.raises(WorkspaceBusy, match=str(tmp_path / "log")):
        await opened(tmp_path / "log")
    await holder.communicate(b"\n")

    streams = await opened(tmp_path / "log")
    await streams.close()


async def test_a_workspace_is_held_from_open_to_close_whatever_still_refers_to_it(tmp_path: Path) -> None:
    streams = await opened(tmp_path / "log")
    lanes: list[Lane] = []

    async def serve(lane: Lane) -> None:
        lanes.append(lane)
        unit = Unit(lane.state)
        unit.put(b"key", b"value")
        await lane.commit(unit)
        while lane.stopping is None:
            await lane.poll(1, 0.1)

    async with serving(streams, "frontier", ["links.discovered"], serve, stateful=True):
        await until(lambda: len(lanes) == 2)
        with pytest.raises(WorkspaceBusy):
            await opened(tmp_path / "log")
    states = [lane.state for lane in lanes]
    await streams.close()
    await streams.close()

    again = await opened(tmp_path / "log")
    await again.close()
    assert len(states) == 2


async def test_a_log_of_another_width_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    streams = await opened(tmp_path / "log", partitions=4)
    await streams.publish([Send(TASKS, 3, b"work")])
    await streams.close()

    with pytest.raises(LayoutMismatch, match=r"4 partitions .* with 2"):
        await opened(tmp_path / "log", partitions=2)

    streams = await opened(tmp_path / "log", partitions=4)
    assert (await read(streams, "fetcher", [TASKS], 1))[0].partition == 3
    await streams.close()


async def test_a_log_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    database = Database.open(tmp_path / "log", partitions=2)
    batch = database.batch()
    batch.put(layout.FORMAT_KEY, layout.pack_number(layout.FORMAT + 1))
    database.write(batch)
    database.close()

    with pytest.raises(TooNew, match=str(tmp_path)):
        await opened(tmp_path / "log")


async def test_a_log_with_parts_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    database = Database.open(tmp_path / "log", partitions=2)
    database.rows.create_column_family("holograms", Options(raw_mode=True))
    database.close()

    with pytest.raises(TooNew, match="holograms"):
        await opened(tmp_path / "log")


async def test_a_database_that_was_killed_before_it_was_made_is_made_now(tmp_path: Path) -> None:
    Rdict(str(tmp_path / "log"), Options(raw_mode=True)).close()

    streams = await opened(tmp_path / "log")
    await streams.publish([Send(TASKS, 1, b"work")])
    assert len(await read(streams, "fetcher", [TASKS], 1)) == 1
    await streams.close()


async def test_a_damaged_database_is_one_clear_line(tmp_path: Path) -> None:
    streams = await opened(tmp_path / "log")
    await streams.close()
    for manifest in (tmp_path / "log").glob("MANIFEST-*"):
        manifest.write_bytes(b"\0" * 100)

    with pytest.raises(FatalError, match=str(tmp_path / "log")) as raised:
        await opened(tmp_path / "log")
    assert "\n" not in str(raised.value)


async def test_a_path_that_cannot_be_a_folder_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("a file")

    with pytest.raises(FatalError, match=str(tmp_path / "log")):
        await opened(tmp_path / "log")


@pytest.mark.parametrize("wrong", [{"partitions": 0}, {"partitions": 70_000}, {"sync": "sometimes"}])
async def test_a_setting_that_cannot_be_is_refused_before_anything_is_written(
    tmp_path: Path, wrong: dict[str, int | str]
) -> None:
    with pytest.raises(UsageError, match=str(next(iter(wrong.values())))):
        await opened(tmp_path / "log", **wrong)  # type: ignore[arg-type]
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("sync", ["none", "group", "always"])
async def test_every_way_of_syncing_keeps_what_was_published_and_done(tmp_path: Path, sync: str) -> None:
    streams = await opened(tmp_path / "log", sync=sync)
    await asyncio.gather(*(streams.publish([Send(TASKS, 0, b"%d" % i)]) for i in range(50)))
    await read(streams, "fetcher", [TASKS], 50)
    await streams.close()

    streams = await opened(tmp_path / "log", sync=sync)
    assert await read(streams, "fetcher", [TASKS], 0) == []
    await streams.close()


FULL = """
import asyncio, resource, sys
from headrace_runtime.streams.seams import Send
from headrace_schemas.errors import HeadraceError
from tests.contract.engines import open_from_spec
async def fill():
    streams = await open_from_spec(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))
    for attempt in range(2):
        try:
            for i in range(100):
                await streams.publish([Send("urls.to_fetch", 0, bytes(100_000))])
            print("all written")
        except HeadraceError as error:
            print(type(error).__name__, error)
    await streams.close()
asyncio.run(fill())
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="no limit on the size of files here")
async def test_a_disk_that_takes_no_more_is_fatal_and_what_was_acknowledged_is_there_afterwards(tmp_path: Path) -> None:
    spec = f"embedded:{tmp_path / 'log'}?partitions=2"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FULL, spec, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    output, errors = await process.communicate()
    lines = output.decode().splitlines()

    assert process.returncode == 0, errors.decode()
    assert [line.split()[0] for line in lines] == ["FatalError", "FatalError"], "and it stays broken"
    assert str(tmp_path / "log") in lines[0]
    streams = await opened(tmp_path / "log")
    (edge, _) = await streams.edges([(TASKS, "fetcher")])
    assert edge.end >= 20
    assert len(await read(streams, "fetcher", [TASKS], edge.end)) == edge.end
    await streams.close()


async def test_a_closed_log_has_no_open_files(tmp_path: Path) -> None:
    streams = await opened(tmp_path / "log")
    await streams.publish([Send(TASKS, 0, b"work")])
    await streams.close()

    held = [
        os.readlink(f"/proc/self/fd/{fd}")
        for fd in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{fd}")
    ]
    assert not [name for name in held if name.startswith(str(tmp_path / "log"))]


async def test_a_log_is_closed_also_under_members_that_nobody_stopped(tmp_path: Path) -> None:
    streams = await opened(tmp_path / "log")
    reading = asyncio.create_task(read(streams, "fetcher", [TASKS], 1))
    await asyncio.sleep(0.05)
    await streams.close()
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)

    again = await opened(tmp_path / "log")
    await again.close()


async def test_a_closed_log_says_so(tmp_path: Path) -> None:
    streams = await opened(tmp_path / "log")
    await streams.close()

    with pytest.raises(FatalError, match="is closed"):
        await streams.publish([Send(TASKS, 0, b"work")])


async def test_errors_of_the_library_do_not_get_out(tmp_path: Path) -> None:
    streams = await opened(tmp_path / "log")
    with pytest.raises(HeadraceError):
        await streams.publish([Send(TASKS, 7, b"no such partition")])
    assert [edge.end for edge in await streams.edges([(TASKS, "fetcher")])] == [0, 0]
    await streams.close()
