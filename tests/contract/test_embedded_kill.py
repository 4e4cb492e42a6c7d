"""Killed while records are being deleted behind the readers."""

import asyncio
import json
import sys
from pathlib import Path

from tests.contract.engines import PARTITIONS, EmbeddedEngine
from tests.contract.ledger import TASKS, World, check_state
from tests.contract.serving import Reader, serving, until_read

ROOT = Path(__file__).parents[2]


async def test_killed_around_deletions_every_url_is_still_released_once(tmp_path: Path) -> None:
    engine = EmbeddedEngine(tmp_path, keep=0.0)
    world = World(PARTITIONS, urls=700)
    async with engine.opened() as streams:
        await streams.publish(world.links())
    steps = [step for step in engine.steps if step.endswith(("_stage_deletions", "_write", "_adopt"))]

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.contract.life", "torture", engine.spec(), json.dumps(steps), "12", "2"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()

    assert json.loads(output)["last 0"] == 1
    async with engine.opened() as streams:
        counted = await check_state(streams, world)
        tasks = await streams.edges([(TASKS, "fetcher")])
        left = Reader()
        async with serving(streams, "replay", [TASKS], left.serve):
            await until_read(streams, [(TASKS, "replay")])
    assert [edge.end for edge in tasks] == [len(world.expected(p)) for p in range(PARTITIONS)], "offsets count releases"
    assert [counts.late for counts in counted] == [0] * PARTITIONS
    assert left.records == []
