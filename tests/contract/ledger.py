"""A crawl in small, to be killed: links are deduplicated, queued, released within a window, worked on out of order and
settled. Whatever happens, in the end every URL was released once and settled, and the counters say what the state says.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence

import msgspec

from headrace_runtime.clock import Deadline, SystemClock
from headrace_runtime.streams.loops import Desk, run_pooled, run_serial
from headrace_runtime.streams.poison import bury
from headrace_runtime.streams.seams import Edge, Lane, Record, Send, Serve, StateView, Streams, Unit
from headrace_schemas.topics import partition_key
from tests.contract.serving import PATIENCE, Reader, read, serving, until, until_read

WINDOW = 8  # tasks in flight per partition
GARBAGE = b"\xff not a list of links"

LINKS, TASKS, PAGES, RESULTS = "links.discovered", "urls.to_fetch", "pages.fetched", "fetch.results"
PROGRESS = "crawl.progress"
EDGES = ((LINKS, "frontier"), (RESULTS, "frontier"), (TASKS, "fetcher"))


class Counts(msgspec.Struct, array_like=True):
    number: int = 0
    """Of the last URL queued."""
    queued: int = 0
    in_flight: int = 0
    settled: int = 0
    late: int = 0
    """Results of what was settled already: the fetcher worked twice."""

    @property
    def open(self) -> int:
        return self.queued + self.in_flight


class Ledger:
    """The stateful handler. `s`+URL: its state; `q`+number: the queue; `c`: the counters."""

    def __init__(self, lane: Lane) -> None:
        self._group, self._partition, self._state = lane.group, lane.partition, lane.state
        (raw,) = lane.state.get([b"c"])
        self._counts = msgspec.msgpack.decode(raw, type=Counts) if raw else Counts()
        self._head = b"q"

    def handle(self, records: Sequence[Record], unit: Unit, now: float) -> float | None:
        before = msgspec.msgpack.encode(self._counts)
        for record in records:
            if record.topic == RESULTS:
                self._settle(record.value, unit)
            else:
                self._ingest(record, unit, now)
        self._release(unit)
        after = msgspec.msgpack.encode(self._counts)
        if after != before:
            unit.put(b"c", after)
            unit.send(Send(PROGRESS, self._partition, after, partition_key(self._partition)))
        return now if self._counts.queued and self._counts.in_flight < WINDOW else None

    def committed(self) -> None: ...

    def _ingest(self, record: Record, unit: Unit, now: float) -> None:
        try:
            urls = msgspec.msgpack.decode(record.value, type=list[bytes])
        except msgspec.DecodeError as error:
            unit.send(bury(record, self._group, str(error), now))
            return
        for url in urls:
            if unit.get([b"s" + url]) == [None]:
                self._counts.number += 1
                self._counts.queued += 1
                unit.put(b"s" + url, b"queued")
                unit.put(b"q%08d" % self._counts.number, url)

    def _settle(self, url: bytes, unit: Unit) -> None:
        if unit.get([b"s" + url]) != [b"in flight"]:
            self._counts.late += 1
            return
        unit.put(b"s" + url, b"settled")
        self._counts.in_flight -= 1
        self._counts.settled += 1
        if url.endswith(b"0"):  # a redirect is a link: into its own input, in the same unit
            unit.send(Send(LINKS, self._partition, msgspec.msgpack.encode([url + b"/target"])))

    def _release(self, unit: Unit) -> None:
        if not self._counts.queued or self._counts.in_flight >= WINDOW:
            return
        for key, url in self._state.scan(self._head, b"r"):
            self._head = key + b"\0"
            unit.delete(key)
            unit.put(b"s" + url, b"in flight")
            unit.send(Send(TASKS, self._partition, url))
            self._counts.queued -= 1
            self._counts.in_flight += 1
            if self._counts.in_flight >= WINDOW:
                return


class Fetcher:
    """The stateless worker: finishes in any order, the page before its result."""

    def __init__(self, desk: Desk, delay: float) -> None:
        self._desk, self._delay, self._random = desk, delay, random.Random()
        self._under_way: set[asyncio.Task[None]] = set()

    def accept(self, records: Sequence[Record]) -> None:
        for record in records:
            task = asyncio.create_task(self._fetch(record))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _fetch(self, record: Record) -> None:
        await asyncio.sleep(self._random.random() * self._delay)
        page = Send(PAGES, record.partition, record.value * 20, record.value)
        self._desk.finish(record, [page], [Send(RESULTS, record.partition, record.value)])

    async def drain(self, deadline: Deadline) -> None:
        if self._under_way:
            _, late = await asyncio.wait(self._under_way, timeout=deadline.left)
            for task in late:
                task.cancel()


async def serve_ledger(lane: Lane) -> None:
    await run_serial(lane, Ledger(lane), SystemClock(), batch=50)


def serve_fetcher(delay: float) -> Serve:
    async def serve(lane: Lane) -> None:
        await run_pooled(lane, lambda _, desk: Fetcher(desk, delay), width=64)

    return serve


class World:
    """The links of `urls` pages per partition, each found about three times; the same for every process."""

    def __init__(self, partitions: int, urls: int, poison: int = 0) -> None:
        self.partitions, self._urls, self._poison = partitions, urls, poison

    def links(self) -> list[Send]:
        chance = random.Random(7)
        sends: list[Send] = []
        for partition in range(self.partitions):
            found = self._base(partition) * 3
            chance.shuffle(found)
            for i in range(0, len(found), 12):
                sends.append(Send(LINKS, partition, msgspec.msgpack.encode(found[i : i + 12])))
        for i in range(self._poison):
            sends.insert(chance.randrange(len(sends)), Send(LINKS, i % self.partitions, GARBAGE, b"bad"))
        return sends

    def expected(self, partition: int) -> set[bytes]:
        base = self._base(partition)
        return set(base) | {url + b"/target" for url in base if url.endswith(b"0")}

    def _base(self, partition: int) -> list[bytes]:
        return [b"http://h%d/%d" % (partition, i) for i in range(self._urls)]


async def complete(streams: Streams) -> bool:
    """Two scans in a row find every edge read, unchanged ends, and nothing open in the counters."""
    first = await _all_read(streams)
    if first is None:
        return False
    table = await streams.table(PROGRESS)
    counts = [msgspec.msgpack.decode(row, type=Counts) for row in table.rows.values()]
    await table.close()
    return not any(count.open for count in counts) and await _all_read(streams) == first


async def until_complete(streams: Streams) -> None:
    deadline = Deadline(PATIENCE)
    while not await complete(streams):
        if deadline.passed:
            raise AssertionError(f"never complete: {await streams.edges(EDGES)}")
        await asyncio.sleep(0.02)


async def _all_read(streams: Streams) -> list[Edge] | None:
    edges = await streams.edges(EDGES)
    return edges if all(edge.committed == edge.end for edge in edges) and any(edge.end for edge in edges) else None


# ---- afterwards ----------------------------------------------------------------------------------


async def check(streams: Streams, world: World, *, exact: bool) -> None:
    """State, outputs, offsets and counters tell the same story. `exact`: the fetcher, too, did nothing twice."""
    counted = await check_state(streams, world)
    everything = await _census(streams)
    for partition, counts in enumerate(counted):
        urls = world.expected(partition)
        assert everything[TASKS, partition] == Counter(urls), "every URL is released once"
        results, pages = everything[RESULTS, partition], everything[PAGES, partition]
        assert set(results) == urls
        assert {page[: len(page) // 20] for page in pages} == urls, "no result without its page"
        assert results.total() - len(urls) == counts.late
        if exact:
            assert counts.late == 0
            assert pages.total() == len(urls)


async def check_state(streams: Streams, world: World) -> list[Counts]:
    """State, offsets and counters agree; for where the records themselves may be gone. → counts by partition."""
    states = await _states(streams, world.partitions)
    table = await streams.table(PROGRESS)
    counted: list[Counts] = []
    for partition in range(world.partitions):
        urls, entries = world.expected(partition), states[partition]
        counts = msgspec.msgpack.decode(entries[b"c"], type=Counts)
        assert {key[1:]: value for key, value in entries.items() if key[:1] == b"s"} == dict.fromkeys(urls, b"settled")
        assert not [key for key in entries if key[:1] == b"q"]
        assert (counts.settled, counts.queued, counts.in_flight) == (len(urls), 0, 0)
        assert table.rows[partition_key(partition)] == entries[b"c"]
        counted.append(counts)
    await table.close()
    assert all(edge.committed == edge.end for edge in await streams.edges(EDGES))
    return counted


async def _census(streams: Streams) -> dict[tuple[str, int], Counter[bytes]]:
    """Everything ever sent, read by a group of its own."""
    reader = Reader(limit=1_000)
    topics = [TASKS, PAGES, RESULTS]
    async with serving(streams, "census", topics, reader.serve):
        await until(lambda: reader.records, "the first record")
        await until_read(streams, [(topic, "census") for topic in topics])
    found: dict[tuple[str, int], Counter[bytes]] = {}
    for record in reader.records:
        found.setdefault((record.topic, record.partition), Counter())[record.value] += 1
    return found


async def _states(streams: Streams, partitions: int) -> dict[int, dict[bytes, bytes]]:
    """The committed state, as the next owner would find it."""
    found: dict[int, dict[bytes, bytes]] = {}

    async def look(lane: Lane) -> None:
        found[lane.partition] = entries_of(lane.state)
        while lane.stopping is None:
            assert await lane.poll(10, 0.1) == [], "all was read and done"

    async with serving(streams, "frontier", [LINKS, RESULTS], look, stateful=True):
        await until(lambda: len(found) == partitions, "a lane for every partition")
    return found


def entries_of(state: StateView) -> dict[bytes, bytes]:
    return dict(state.scan(b"", b"\xff"))


async def dead_letters(streams: Streams, count: int) -> list[Record]:
    return await read(streams, "undertaker", ["dead.letters"], count)
