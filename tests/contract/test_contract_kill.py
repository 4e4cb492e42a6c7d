"""Killed anywhere, the engine tells one story: state, outputs and offsets agree."""

import asyncio
import json
import signal
import sys
from pathlib import Path

import pytest

from tests.contract.engines import PARTITIONS, Engine
from tests.contract.ledger import World, check
from tests.contract.serving import PATIENCE

ROOT = Path(__file__).parents[2]


async def _start(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.contract.life",
        *arguments,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


@pytest.mark.timeout(600)
async def test_killed_between_any_two_steps_of_a_commit_nothing_is_lost_or_settled_twice(engine: Engine) -> None:
    world = World(PARTITIONS, urls=1_000)
    async with engine.opened() as streams:
        await streams.publish(world.links())

    process = await _start("torture", engine.spec(), json.dumps(list(engine.steps)), str(engine.kills), "1")
    output, errors = await process.communicate()
    ends = json.loads(output or "{}")

    assert process.returncode == 0, errors.decode()
    assert ends.pop("last 0", 0) == 1, (ends, errors.decode())
    assert sum(ends.values()) >= engine.kills
    assert not [end for end in ends if end.startswith("exit")], (ends, errors.decode())
    assert {step.rpartition(".")[2] for step in engine.steps} <= set(ends), "each step was the last of a life"
    async with engine.opened() as streams:
        await check(streams, world, exact=engine.exact)


@pytest.mark.timeout(300)
async def test_a_member_that_slept_past_its_session_and_woke_up_loses_and_repeats_nothing(engine: Engine) -> None:
    world = World(PARTITIONS, urls=600)
    async with engine.opened() as streams:
        await streams.publish(world.links())

    processes = {instance: await _start("serve", engine.spec(instance)) for instance in engine.instances}
    for process in processes.values():
        assert process.stdout is not None
        await asyncio.wait_for(process.stdout.readline(), PATIENCE)
    sleeper = processes[engine.instances[-1]]
    sleeper.send_signal(signal.SIGSTOP)
    await asyncio.sleep(1.5 * engine.session)
    sleeper.send_signal(signal.SIGCONT)
    for instance, process in processes.items():
        await _until_complete(process, engine.spec(instance))

    async with engine.opened() as streams:
        await check(streams, world, exact=engine.exact)


async def _until_complete(process: asyncio.subprocess.Process, spec: str) -> None:
    """A process that ends with an error (it was fenced) is started again, as a supervisor would."""
    for _ in range(5):
        _, errors = await asyncio.wait_for(process.communicate(), 2 * PATIENCE)
        if process.returncode == 0:
            return
        process = await _start("serve", spec)
    raise AssertionError(errors.decode())
