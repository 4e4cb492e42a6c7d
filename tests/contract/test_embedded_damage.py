"""A torn write-ahead log, as a power cut leaves it, opens to a consistent prefix of what was committed."""

import random
import shutil
from pathlib import Path

import pytest

from headrace_runtime.clock import SystemClock
from headrace_runtime.streams.embedded.engine import EmbeddedStreams
from headrace_runtime.streams.seams import Lane, Send, Unit
from tests.contract.serving import read, serving, until

LINKS, TASKS = "links.discovered", "urls.to_fetch"
UNITS = 200


async def _written(path: Path) -> Path:
    """A copy, taken while it is open, of a log into which units 0, 1, 2 … were committed, with state, task and row."""
    streams = await EmbeddedStreams.open(path / "live", partitions=1, sync="none", keep=3_600, clock=SystemClock())
    finished: list[int] = []

    async def serve(lane: Lane) -> None:
        for i in range(UNITS):
            unit = Unit(lane.state)
            unit.put(b"sum", b"%d" % i)
            unit.put(b"entry %03d" % i, bytes(300))
            unit.send(Send(TASKS, 0, b"%d" % i))
            unit.send(Send("crawl.progress", 0, b"%d" % i, b"0"))
            await lane.commit(unit)
        finished.append(1)
        while lane.stopping is None:
            await lane.poll(1, 0.1)

    async with serving(streams, "frontier", [LINKS], serve, stateful=True):
        await until(lambda: finished)
        shutil.copytree(path / "live", path / "torn")
    await streams.close()
    return path / "torn"


def _cut(wal: bytearray, chance: random.Random) -> None:
    del wal[chance.randrange(len(wal)) :]


def _zero(wal: bytearray, chance: random.Random) -> None:
    at = chance.randrange(len(wal))
    wal[at:] = bytes(len(wal) - at)


def _flip(wal: bytearray, chance: random.Random) -> None:
    wal[chance.randrange(len(wal))] ^= 0x40


@pytest.mark.parametrize("harm", [_cut, _zero, _flip])
@pytest.mark.parametrize("seed", range(3))
async def test_a_damaged_write_ahead_log_opens_to_a_consistent_prefix(tmp_path: Path, harm, seed: int) -> None:  # type: ignore[no-untyped-def]
    torn = await _written(tmp_path)
    (wal,) = [file for file in torn.glob("*.log") if file.stat().st_size > 10_000]
    content = bytearray(wal.read_bytes())
    harm(content, random.Random(seed))
    wal.write_bytes(content)

    streams = await EmbeddedStreams.open(torn, partitions=1, sync="none", keep=3_600, clock=SystemClock())
    (edge,) = await streams.edges([(TASKS, "fetcher")])
    records = await read(streams, "fetcher", [TASKS], edge.end)
    states: list[dict[bytes, bytes]] = []

    async def look(lane: Lane) -> None:
        states.append(dict(lane.state.scan(b"", b"\xff")))
        while lane.stopping is None:
            await lane.poll(1, 0.1)

    async with serving(streams, "frontier", [LINKS], look, stateful=True):
        await until(lambda: states)
    table = await streams.table("crawl.progress")
    rows = dict(table.rows)
    await streams.publish([Send(TASKS, 0, b"goes on")])
    await streams.close()

    count = len(records)
    assert [record.value for record in records] == [b"%d" % i for i in range(count)]
    assert count < UNITS
    entries = {b"entry %03d" % i: bytes(300) for i in range(count)}
    assert states == [entries | ({b"sum": b"%d" % (count - 1)} if count else {})]
    assert rows == ({b"0": b"%d" % (count - 1)} if count else {})
