"""Is this process still what the group takes it for? A process that slept is a zombie until proved otherwise."""

import asyncio
from typing import Any

from aiokafka import AIOKafkaConsumer

from headrace_runtime.clock import Clock

_TICK = 0.2  # seconds


class Ticker:
    """The last time the event loop of this process turned: one per process, so that a stopped one notices."""

    def __init__(self, clock: Clock) -> None:
        self.last = clock.monotonic()
        self._clock = clock
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            self.last = self._clock.monotonic()
            await asyncio.sleep(_TICK)

    def stop(self) -> None:
        self._task.cancel()


class Pulse:
    """One member's heartbeats. Written by the consumer's own heartbeat task, read by its lanes."""

    def __init__(self, ticker: Ticker, session_timeout: float, clock: Clock) -> None:
        self._ticker, self._clock = ticker, clock
        self._limit = session_timeout / 2
        self._heard = clock.monotonic()
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def fresh(self) -> bool:
        """Last tick and last heartbeat are younger than half the session: no one else can own our partitions yet."""
        now = self._clock.monotonic()
        return now - self._ticker.last < self._limit and now - self._heard < self._limit

    @property
    def silence(self) -> float:
        """Seconds for which the group has not answered, once they are more than it may take; until then 0."""
        silent = self._clock.monotonic() - self._heard
        return silent if silent >= self._limit else 0.0

    def joined(self) -> None:
        """The group has just said what is ours."""
        self._heard = self._clock.monotonic()

    async def confirmation(self) -> None:
        """Until the group has answered a heartbeat sent from now on, without asking to rejoin."""
        moment = self._clock.monotonic()
        while self._heard <= moment:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            await waiter

    def _confirm(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)
        self._waiting.clear()

    def watch(self, consumer: AIOKafkaConsumer) -> None:
        """aiokafka keeps the time of the last heartbeat in a local variable. The one place that reaches into it."""
        coordinator: Any = consumer._coordinator
        inner = coordinator._do_heartbeat

        async def heartbeat() -> bool:
            sent = self._clock.monotonic()  # the session is counted from here at the earliest
            alive: bool = await inner()
            if alive:
                self._heard = sent
                if not coordinator._rejoin_needed_fut.done():
                    self._confirm()
            return alive

        coordinator._do_heartbeat = heartbeat
