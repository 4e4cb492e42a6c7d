"""The service as a process runs it: real lanes on the embedded engine, and a fetcher of a few lines."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from prometheus_client import CollectorRegistry

from headrace_frontier.look import Around
from headrace_frontier.service import build, explainer
from headrace_runtime.clock import Deadline, SystemClock
from headrace_runtime.control import ControlWatch
from headrace_runtime.service import Parts
from headrace_runtime.streams.embedded.engine import EmbeddedStreams
from headrace_runtime.streams.seams import Lane, Membership, Send, Unit
from headrace_schemas import codec
from headrace_schemas.messages import (
    Control,
    CrawlSettings,
    DiscoveredLinks,
    Fetched,
    FetchResult,
    FetchTask,
    Progress,
    Robots,
)
from headrace_schemas.settings import PolitenessSettings, Settings, StreamSettings
from headrace_schemas.topics import CONTROL_KEY, partition_key
from headrace_schemas.urls import Found, Partitioner
from tests.frontier.world import key_of, link

PARTITIONS = 3
SETTINGS = Settings(streams=StreamSettings(partitions=PARTITIONS), politeness=PolitenessSettings(delay=0))


async def fetch(lane: Lane) -> None:
    """Answers every task at once; the front page of a host links to four others of it."""
    partitioner = Partitioner(PARTITIONS)
    while lane.stopping is None:
        unit = Unit()
        for record in await lane.poll(100, 0.05):
            unit.done.append(record)
            task: FetchTask = codec.decode(record.topic, record.value)
            assert record.key == task.fetch_id.to_bytes(8, "big")
            outcome = Robots(404) if task.kind == "robots" else Fetched(200, 1)
            result = FetchResult(task.fetch_id, task.url, task.key, outcome, kind=task.kind)
            if task.kind == "page" and task.depth == 0:
                links = tuple(link(f"{task.url}{n}", 1) for n in range(4))
                found = codec.encode(DiscoveredLinks(links), 1)
                unit.send(Send("links.discovered", partitioner.partition(task.url), found))
            unit.send_later(Send("fetch.results", lane.partition, codec.encode(result, 1)))
        if not unit.empty:
            await lane.commit(unit)


class Crawl:
    """Frontier and fetcher on one log, for as long as the `async with` lasts."""

    def __init__(self, path: Path) -> None:
        self.path, self.registry = path, CollectorRegistry()
        self.members: list[Membership] = []

    async def __aenter__(self) -> "Crawl":
        clock = SystemClock()
        self.streams = await EmbeddedStreams.open(self.path, partitions=PARTITIONS, sync="none", keep=0.0, clock=clock)
        self.control = await ControlWatch.open(self.streams)
        self.progress = await self.streams.table("crawl.progress")
        parts = Parts(self.streams, self.control, clock, self.registry, self.path, "here:1")
        service = build(SETTINGS, parts)
        self.members = [
            await self.streams.join("fetcher", ("urls.to_fetch",), fetch),
            await self.streams.join(service.group, service.topics, service.serve, stateful=service.stateful),
        ]
        runs: list[Callable[[], Awaitable[None]]] = [member.run for member in self.members]
        self.tasks = [asyncio.ensure_future(run()) for run in (*runs, *service.background)]
        self.status = service.status
        return self

    async def __aexit__(self, *_: object) -> None:
        for member in self.members:
            await member.stop(Deadline(5.0))
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self.progress.close()
        await self.control.close()
        await self.streams.close()

    async def say(self, control: Control) -> None:
        await self.streams.publish([Send("crawl.control", 0, codec.encode(control), CONTROL_KEY)])

    async def seed(self, *urls: str, revision: int) -> None:
        partitioner = Partitioner(PARTITIONS)
        sends = []
        for url in urls:
            value = codec.encode(DiscoveredLinks((link(url),), "seed"), revision)
            sends.append(Send("links.discovered", partitioner.partition(url), value))
        await self.streams.publish(sends)

    def rows(self) -> list[Progress]:
        keys = [partition_key(partition) for partition in range(PARTITIONS)]
        return [codec.decode("crawl.progress", self.progress.rows[key]) for key in keys if key in self.progress.rows]

    async def until(self, true: Callable[[list[Progress]], bool]) -> None:
        async with asyncio.timeout(20):
            while not true(self.rows()):
                for task in self.tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.02)


def fetched(rows: list[Progress]) -> int:
    return sum(row.fetched for row in rows)


def seeds(count: int) -> tuple[str, ...]:
    return tuple(f"http://h{n}.test/" for n in range(count))


async def test_a_crawl_on_the_embedded_log_is_complete_and_resumes_where_it_was(tmp_path: Path) -> None:
    async with Crawl(tmp_path / "log") as crawl:
        await crawl.until(lambda rows: len(rows) == PARTITIONS)  # each owner says where it is, before any work
        await crawl.say(Control(1, CrawlSettings(scope_mode="all", delay=0.0, max_pages=17)))
        await crawl.seed(*seeds(6), revision=1)
        await crawl.until(lambda rows: fetched(rows) == 17 and all(row.behind_budget == row.queued for row in rows))
        assert {row.owner for row in crawl.rows()} == {"here:1"}
    async with Crawl(tmp_path / "log") as crawl:
        await crawl.say(Control(2, CrawlSettings(scope_mode="all", delay=0.0)))
        await crawl.until(lambda rows: fetched(rows) == 30)
        assert sum(row.discovered for row in crawl.rows()) == 30
        assert crawl.registry.get_sample_value("crawler_urls", {"state": "fetched"}) == 30
        assert set(crawl.status()["partitions"]) == {"0", "1", "2"}


async def test_a_paused_crawl_asks_for_nothing(tmp_path: Path) -> None:
    async with Crawl(tmp_path / "log") as crawl:
        await crawl.say(Control(1, CrawlSettings(scope_mode="all"), mode="paused"))
        await crawl.seed("http://a.test/", revision=1)
        await crawl.until(lambda rows: sum(row.queued for row in rows) == 1)
        await asyncio.sleep(0.5)
        assert all(edge.end == 0 for edge in await crawl.streams.edges([("urls.to_fetch", "fetcher")]))
        lane = crawl.members[1].lanes[Partitioner(PARTITIONS).partition("http://a.test/")]
        around = Around(Control(1, CrawlSettings(scope_mode="all"), mode="paused"), 0, time.time())
        told = explainer(SETTINGS).explain(lane.state, Found("http://a.test/", key_of("http://a.test/")), around)
        assert (told["state"], told["waits"][0]) == ("queued", {"for": "paused"})
