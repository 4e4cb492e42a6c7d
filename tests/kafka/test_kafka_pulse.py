"""A process that slept is a zombie until proved otherwise; a client that stalls silently is ended."""

import asyncio

import pytest
from aiokafka import TopicPartition

from headrace_runtime.clock import ManualClock
from headrace_runtime.streams.kafka.pulse import Pulse, Ticker
from headrace_runtime.streams.kafka.watchdog import STALL, Watchdog
from headrace_schemas.errors import FatalError

AT = TopicPartition("urls.to_fetch", 3)


class Coordinator:
    """aiokafka's, as far as the pulse looks into it."""

    def __init__(self) -> None:
        self.alive = True
        self._rejoin_needed_fut: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def _do_heartbeat(self) -> bool:
        return self.alive


class Consumer:
    def __init__(self) -> None:
        self._coordinator = Coordinator()


async def test_a_process_that_slept_owns_nothing_until_the_group_has_answered() -> None:
    clock = ManualClock()
    ticker, consumer = Ticker(clock), Consumer()
    pulse = Pulse(ticker, 10.0, clock)
    pulse.watch(consumer)
    assert pulse.fresh

    clock.advance(6.0)
    assert not pulse.fresh, "it does not even know that it slept"
    await asyncio.sleep(0.3)
    assert not pulse.fresh, "it knows, and the group has not answered"
    await consumer._coordinator._do_heartbeat()
    assert pulse.fresh
    ticker.stop()


async def test_a_group_that_does_not_answer_takes_ownership_away() -> None:
    clock = ManualClock()
    ticker, consumer = Ticker(clock), Consumer()
    pulse = Pulse(ticker, 10.0, clock)
    pulse.watch(consumer)
    consumer._coordinator.alive = False
    clock.advance(4.0)
    await asyncio.sleep(0.3)
    await consumer._coordinator._do_heartbeat()
    assert pulse.fresh
    clock.advance(2.0)
    await asyncio.sleep(0.3)
    await consumer._coordinator._do_heartbeat()
    assert not pulse.fresh
    ticker.stop()


async def test_a_fenced_lane_waits_for_a_heartbeat_that_does_not_ask_it_to_rejoin() -> None:
    clock = ManualClock()
    ticker, consumer = Ticker(clock), Consumer()
    pulse = Pulse(ticker, 10.0, clock)
    pulse.watch(consumer)
    waiting = asyncio.create_task(pulse.confirmation())
    clock.advance(1.0)
    consumer._coordinator._rejoin_needed_fut.set_result(None)
    await consumer._coordinator._do_heartbeat()
    await asyncio.sleep(0)
    assert not waiting.done()
    consumer._coordinator._rejoin_needed_fut = asyncio.get_running_loop().create_future()
    clock.advance(1.0)
    await consumer._coordinator._do_heartbeat()
    await asyncio.wait_for(waiting, 1)
    ticker.stop()


def test_a_partition_that_stands_still_with_records_to_read_ends_the_process() -> None:
    clock = ManualClock()
    watchdog = Watchdog(clock)
    watchdog.see({AT: 7}, {AT: 9})
    clock.advance(STALL - 1)
    watchdog.see({AT: 7}, {AT: 12})
    clock.advance(1)
    with pytest.raises(FatalError, match=r"urls\.to_fetch\[3\] has stood at 7"):
        watchdog.see({AT: 7}, {AT: 12})


def test_progress_an_end_reached_a_pause_or_an_outage_is_no_stall() -> None:
    clock = ManualClock()
    watchdog = Watchdog(clock)
    for positions, ends in [({AT: 7}, {AT: 9}), ({AT: 8}, {AT: 9}), ({AT: 9}, {AT: 9}), ({AT: 9}, {AT: 10}), ({}, {})]:
        watchdog.see(positions, ends)
        clock.advance(STALL - 1)
    watchdog.see({AT: 9}, {AT: 10})
    clock.advance(STALL - 1)
    watchdog.forget()
    watchdog.see({AT: 9}, {AT: 10})
    clock.advance(STALL - 1)
    watchdog.see({AT: 9}, {AT: 10})
