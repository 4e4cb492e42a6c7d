"""Unacknowledged bytes are bounded."""

import asyncio

from headrace_runtime.streams.kafka.delivery import Gate


async def test_the_gate_lets_in_what_fits_and_the_rest_in_order() -> None:
    gate, entered = Gate(100), []

    async def enter(name: str, size: int) -> None:
        await gate.enter(size)
        entered.append(name)

    tasks = [asyncio.create_task(enter(name, size)) for name, size in (("a", 60), ("b", 60), ("c", 10))]
    await asyncio.sleep(0)
    assert entered == ["a"], "c would fit, but b was first"
    gate.leave(60)
    await asyncio.gather(*tasks)
    assert entered == ["a", "b", "c"]


async def test_one_that_is_larger_than_the_gate_passes_alone() -> None:
    gate = Gate(100)
    await gate.enter(500)
    waiting = asyncio.create_task(gate.enter(1))
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.leave(500)
    await waiting


async def test_one_that_gives_up_waiting_holds_up_nobody() -> None:
    gate = Gate(100)
    await gate.enter(100)
    first, second = asyncio.create_task(gate.enter(100)), asyncio.create_task(gate.enter(50))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    gate.leave(100)
    await second
    gate.leave(50)
    await gate.enter(100)


async def test_one_cancelled_in_the_moment_it_was_let_in_leaves_again() -> None:
    gate = Gate(100)
    await gate.enter(100)
    waiting = asyncio.create_task(gate.enter(100))
    await asyncio.sleep(0)
    gate.leave(100)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    await asyncio.wait_for(gate.enter(100), 1)
