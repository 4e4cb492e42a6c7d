"""A frontier's state is in its changelog: killed, moved to another process and rebuilt there from nothing, it is the
same to the byte as what was committed last, and what is kept of it by adding and subtracting agrees with a recount."""

import asyncio
import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from headrace_runtime.clock import Deadline
from headrace_runtime.streams.kafka.engine import KafkaStreams
from headrace_runtime.streams.seams import Lane, Send, Streams, Unit
from headrace_schemas import codec
from headrace_schemas.messages import Control, CrawlSettings, DiscoveredLinks, Fetched, FetchResult, FetchTask, Outcome
from headrace_schemas.topics import CONTROL_KEY
from headrace_schemas.urls import Partitioner
from tests.contract.serving import serving, until
from tests.frontier.webs import tangled
from tests.frontier.world import ALLOW_ALL, NOT_FOUND, Page, link
from tests.kafka.place import Place

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

CHANGELOG = "frontier.changelog"
_ROOT = Path(__file__).parents[2]


# ---- the parts -----------------------------------------------------------------------------------


class Child:
    """A frontier with a folder of its own, empty when it starts."""

    def __init__(self, place: Place, name: str) -> None:
        self._notes, self._log = place.folder / f"{name}.notes", place.folder / f"{name}.log"
        spec = (
            f"kafka:{','.join(place.brokers)}?prefix={place.prefix}&partitions={place.partitions}"
            f"&session={place.session:g}&state={place.folder / name}"
        )
        assert not (place.folder / name).exists()
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.kafka.frontier_child", spec, str(self._notes)],
                cwd=_ROOT,
                stdout=out,
                stderr=out,
            )

    def end(self, with_signal: signal.Signals) -> None:
        if self._process.poll() is None:
            self._process.send_signal(with_signal)
        self._process.wait(60)

    def notes(self, what: str) -> list[dict[str, Any]]:
        """In the order in which they were made; one that is being written does not count."""
        assert self._process.returncode is not None or self._process.poll() is None, self._log.read_text()[-3000:]
        lines = self._notes.read_bytes().split(b"\n")[:-1] if self._notes.exists() else []
        return [note for note in map(json.loads, lines) if note["what"] in what.split()]

    def opened(self) -> dict[int, dict[str, Any]]:
        """The first note of each partition: what was rebuilt."""
        found: dict[int, dict[str, Any]] = {}
        for note in self.notes("opened"):
            found.setdefault(note["partition"], note)
        return found

    def may_be_committed(self) -> dict[int, set[str]]:
        """By partition: the hash after the last commit that it knows of, and of the one it was in when it died."""
        last: dict[int, set[str]] = {}
        for note in self.notes("opened staged committed"):
            if note["what"] == "staged":
                last[note["partition"]].add(note["hash"])
            else:
                last[note["partition"]] = {note["hash"]}
        return last


@contextmanager
def child(place: Place, name: str) -> Iterator[Child]:
    running = Child(place, name)
    try:
        yield running
    finally:
        running.end(signal.SIGKILL)


@dataclass
class Fetcher:
    """Answers tasks from a table, as many as it may."""

    web: dict[str, Page]
    partitioner: Partitioner
    allowed: int = 0
    asked: Counter[str] = field(default_factory=Counter)
    answered: Counter[str] = field(default_factory=Counter)
    """By the tag of the outcome."""

    async def serve(self, lane: Lane) -> None:
        while lane.stopping is None:
            records = await lane.poll(min(4, self.allowed), 0.05) if self.allowed > 0 else []
            unit = Unit()
            for record in records:
                self._answer(codec.decode(record.topic, record.value), lane.partition, unit)
            unit.done.extend(records)
            self.allowed -= len(records)
            if records:
                await lane.commit(unit)
            await asyncio.sleep(0.02)  # many small units are wanted

    def _answer(self, task: FetchTask, partition: int, unit: Unit) -> None:
        page = self.web.get(task.url, ALLOW_ALL if task.kind == "robots" else NOT_FOUND)
        outcome: Outcome = page.outcomes[min(self.asked[task.url], len(page.outcomes) - 1)]
        self.asked[task.url] += 1
        self.answered[type(outcome).__name__] += 1
        for url in page.links if isinstance(outcome, Fetched) else ():
            unit.send(self.links(DiscoveredLinks((link(url, task.depth + 1, referrer=task.url),))))
        result = FetchResult(
            task.fetch_id,
            task.url,
            task.key,
            outcome,
            kind=task.kind,
            depth=task.depth,
            hop=task.hop,
            referrer=task.referrer,
            attempt=task.attempt,
            chain=task.chain,
            run=task.run,
        )
        unit.send(Send("fetch.results", partition, codec.encode(result, 1)))

    def links(self, message: DiscoveredLinks) -> Send:
        return Send("links.discovered", self.partitioner.partition(message.links[0].url), codec.encode(message, 1))


async def begin(streams: Streams, fetcher: Fetcher, *urls: str) -> None:
    settings = CrawlSettings(scope_mode="all", delay=0.0, max_depth=50)
    control = Control(1, settings, run=1)
    await streams.publish([Send("crawl.control", 0, codec.encode(control, 1), CONTROL_KEY)])
    await streams.publish([fetcher.links(DiscoveredLinks((link(url),))) for url in urls])


async def quiet(streams: Streams) -> None:
    """Nothing is left to do, and what was done is committed."""
    edges = [(topic, "frontier") for topic in ("links.discovered", "fetch.results")] + [("urls.to_fetch", "fetcher")]
    table = await streams.table("crawl.progress")
    deadline = Deadline(120.0)
    try:
        while True:
            behind = [edge for edge in await streams.edges(edges) if edge.committed != edge.end]
            await table.refresh()
            rows = [codec.decode("crawl.progress", raw) for raw in table.rows.values()]
            busy = sum(row.queued + row.in_flight + row.tasks_in_flight for row in rows)
            if not behind and not busy:
                return
            assert not deadline.passed, (behind, rows)
            await asyncio.sleep(0.1)
    finally:
        await table.close()


async def rebuilt(after: Child, before: Child, place: Place) -> None:
    """`after`, with an empty folder, found in every partition what `before` committed last."""
    await until(lambda: len(after.opened()) == place.partitions, "every partition in the next process")
    wanted = before.may_be_committed()
    for partition, note in after.opened().items():
        assert note["hash"] in wanted[partition], (partition, note, wanted)
        assert note["differences"] == []
        assert note["entries"] > 20, "too little to mean anything"


def committed(frontier: Child, count: int) -> Callable[[], bool]:
    return lambda: len(frontier.notes("committed")) >= count


# ---- what is shown -------------------------------------------------------------------------------


async def test_killed_and_moved_to_another_process_the_state_is_the_same_to_the_byte(
    place: Place, streams: KafkaStreams
) -> None:
    web = tangled(7, hosts=24, pages=25)
    fetcher = Fetcher(web, Partitioner(place.partitions, "host"))
    await begin(streams, fetcher, *(url for url in web if url.endswith("/0")))
    async with serving(streams, "fetcher", ["urls.to_fetch"], fetcher.serve):
        fetcher.allowed = 250
        with child(place, "first") as first:
            await until(committed(first, 30))
            first.end(signal.SIGKILL)
        fetcher.allowed = 150  # there is more to do: it is killed once more in the middle
        with child(place, "second") as second:
            await rebuilt(second, first, place)
            await until(committed(second, 10))
            second.end(signal.SIGKILL)
        fetcher.allowed = 1_000_000
        with child(place, "third") as third:
            await rebuilt(third, second, place)
            await quiet(streams)
            third.end(signal.SIGTERM)  # cleanly: now there is one hash it can be
            assert {len(hashes) for hashes in third.may_be_committed().values()} == {1}
            with child(place, "fourth") as fourth:
                await rebuilt(fourth, third, place)
    assert {"Fetched", "Redirected", "Failed", "Deferred", "Robots"} <= fetcher.answered.keys()
    staged = [note for frontier in (first, second, third) for note in frontier.notes("staged")]
    assert sum(note["deleted"] for note in staged) > 200
    assert sum(note["written"] for note in staged) > 1_000


async def test_what_compaction_leaves_of_the_changelog_is_enough(place: Place, streams: KafkaStreams) -> None:
    web = tangled(11, hosts=16, pages=20)
    fetcher = Fetcher(web, Partitioner(place.partitions, "host"), allowed=1_000_000)
    await begin(streams, fetcher, *(url for url in web if url.endswith("/0")))
    async with serving(streams, "fetcher", ["urls.to_fetch"], fetcher.serve):
        with child(place, "first") as first:
            await until(committed(first, 10))
            await quiet(streams)
            before = await changelog(place)
            await compact_soon(place)
            more = [f"http://h{number}.test/more" for number in range(16)]
            await streams.publish([fetcher.links(DiscoveredLinks((link(url),))) for url in more])
            await quiet(streams)  # what is written now closes the segment that is to be compacted
            deadline = Deadline(90.0)
            while any(after >= there for after, there in zip(await changelog(place), before, strict=True)):
                assert not deadline.passed, (before, await changelog(place))
                await asyncio.sleep(1.0)
            first.end(signal.SIGKILL)
        with child(place, "second") as second:
            await rebuilt(second, first, place)


async def changelog(place: Place) -> list[int]:
    """Records in each of its partitions."""
    return [len(await place.read_all(CHANGELOG, partition)) for partition in range(place.partitions)]


async def compact_soon(place: Place) -> None:
    settings = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    topic = ConfigResource(ConfigResourceType.TOPIC, place.prefix + CHANGELOG, configs=settings)
    async with place.admin() as admin:
        await admin.alter_configs([topic])
    await asyncio.sleep(0.2)  # older than `segment.ms`
