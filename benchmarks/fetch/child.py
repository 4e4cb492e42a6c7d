"""The fetcher as a process runs it (`service.build`, an embedded log), given tasks; prints what they cost as JSON.

`python -m benchmarks.fetch.child ORDER`, an `Order` as JSON. Counted is from the moment the tasks are appended until
the group has committed them all: each page and its result are in the log by then. Nobody reads those meanwhile.
"""

import asyncio
import cProfile
import gc
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import cast

import msgspec
import xxhash
from prometheus_client import CollectorRegistry

from benchmarks.fetch.order import Order, Spent
from benchmarks.figures import memory
from headrace_fetcher.service import build
from headrace_runtime import process
from headrace_runtime.clock import Deadline, SystemClock
from headrace_runtime.control import ControlWatch
from headrace_runtime.service import Parts
from headrace_runtime.streams.embedded.engine import EmbeddedStreams
from headrace_runtime.streams.seams import Lane, Send, Unit
from headrace_schemas import codec
from headrace_schemas.messages import Control, CrawlSettings, Fetched, FetchResult, FetchTask
from headrace_schemas.settings import FetchSettings, LimitSettings, Settings
from headrace_schemas.topics import CONTROL_KEY
from headrace_schemas.urls import host_of

TICK = 0.02  # seconds between two looks at how far it is
IN_LOG = "fetch.results"


@dataclass
class Fetcher:
    streams: EmbeddedStreams
    registry: CollectorRegistry
    order: Order

    def __post_init__(self) -> None:
        self._numbers = count(1)

    def sends(self, file: str) -> list[Send]:
        return [self._send(url) for url in Path(file).read_text().split()]

    def _send(self, url: str) -> Send:
        number = next(self._numbers)
        key = xxhash.xxh3_128_digest(url.encode())
        task = FetchTask(number, url, key, host_of(url), self.order.delay, valid_until=1e12)
        return Send("urls.to_fetch", 0, codec.encode(task), number.to_bytes(8, "big"))

    async def fetch(self, sends: list[Send], enough: int = 0) -> None:
        before = self.pages
        await self.streams.publish(sends)
        while not await self._settled():
            if enough and self.pages - before >= enough:
                return
            await asyncio.sleep(TICK)

    @property
    def pages(self) -> float:
        return self.registry.get_sample_value("crawler_pages_fetched_total") or 0.0

    async def _settled(self) -> bool:
        return all(edge.committed == edge.end for edge in await self.streams.edges([("urls.to_fetch", "fetcher")]))

    async def results(self) -> list[FetchResult]:
        """All there are."""
        found: list[FetchResult] = []

        async def read(lane: Lane) -> None:
            while lane.stopping is None:
                if records := await lane.poll(1_000, 0.05):
                    found.extend(cast(FetchResult, codec.decode(IN_LOG, record.value)) for record in records)
                    unit = Unit()
                    unit.done.extend(records)
                    await lane.commit(unit)
                else:
                    ended.set()

        ended = asyncio.Event()
        reader = await self.streams.join("bench", [IN_LOG], read)
        running = asyncio.create_task(reader.run())
        await ended.wait()
        await reader.stop(Deadline(1.0))
        await running
        return found


@asynccontextmanager
async def fetcher(folder: Path, order: Order) -> AsyncIterator[Fetcher]:
    clock, registry = SystemClock(), CollectorRegistry()
    streams = await EmbeddedStreams.open(folder / "log", partitions=1, sync="group", keep=3600.0, clock=clock)
    running = Control(1, CrawlSettings(), mode="running")
    await streams.publish([Send("crawl.control", 0, codec.encode(running), CONTROL_KEY)])
    control = await ControlWatch.open(streams)
    service = build(_settings(order), Parts(streams, control, clock, registry, folder))
    await service.start()
    member = await streams.join(service.group, service.topics, service.serve)
    tasks = [asyncio.ensure_future(work()) for work in (member.run, *service.background)]
    try:
        yield Fetcher(streams, registry, order)
    finally:
        await member.stop(Deadline(0.5))
        await tasks[0]
        for task in tasks[1:]:
            task.cancel()
        await asyncio.gather(*tasks[1:], return_exceptions=True)
        await service.close()
        await control.close()
        await streams.close()


def _settings(order: Order) -> Settings:
    fetch = msgspec.convert({"client": order.client, "allow_private": ["127.0.0.0/8"]}, FetchSettings)
    return Settings(contact="bench@example.org", fetch=fetch, limits=LimitSettings(concurrency=128))


async def run(order: Order) -> Spent:
    with tempfile.TemporaryDirectory(prefix="fetch-") as folder:
        async with fetcher(Path(folder), order) as own:
            await own.fetch(own.sends(order.warm))
            sends, profile = own.sends(order.urls), cProfile.Profile() if order.profile else None
            gc.collect()
            if profile:
                profile.enable()
            cpu, began = time.process_time(), time.monotonic()
            await own.fetch(sends, order.enough)
            cpu, seconds = time.process_time() - cpu, time.monotonic() - began
            if profile:
                profile.disable()
                profile.dump_stats(order.profile)
            counted = {int.from_bytes(send.key or b"", "big") for send in sends}
            results = [result for result in await own.results() if result.fetch_id in counted]
        outcomes = Counter(_word(result) for result in results)
        size = sum(result.outcome.size for result in results if isinstance(result.outcome, Fetched))
        return Spent(cpu, seconds, dict(outcomes), size, memory(field="VmHWM"))


def _word(result: FetchResult) -> str:
    outcome = result.outcome
    if isinstance(outcome, Fetched):
        return str(outcome.status)
    return str(getattr(outcome, "reason", type(outcome).__name__))


def main() -> None:
    order = msgspec.json.decode(sys.argv[1], type=Order)

    async def measured(_: process.Signals) -> int:
        print(msgspec.json.encode(await run(order)).decode())
        return process.DONE

    sys.exit(process.run(measured))


if __name__ == "__main__":
    main()
