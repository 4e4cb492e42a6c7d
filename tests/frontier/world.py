"""A crawl in virtual time: real handlers on state in memory, topics as lists, and a fetcher that answers from a table.

Everything random comes from one seed. With `crash`, units are lost before their commit and handlers are built anew
from what was committed, as after a kill.
"""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
import xxhash
from prometheus_client import CollectorRegistry

from headrace_frontier.circumstances import Circumstances
from headrace_frontier.handler import FrontierHandler, Wiring
from headrace_frontier.metrics import Metrics
from headrace_frontier.tuning import Tuning
from headrace_runtime.clock import ManualClock
from headrace_runtime.streams.memory import MemoryState
from headrace_runtime.streams.seams import Record, Send, Unit
from headrace_schemas import codec
from headrace_schemas.messages import (
    Control,
    CrawlSettings,
    DiscoveredLinks,
    Failed,
    Fetched,
    FetchResult,
    FetchTask,
    Link,
    Outcome,
    Progress,
    Redirected,
    Robots,
)
from headrace_schemas.settings import BreakerSettings, RetrySettings, RobotsSettings
from headrace_schemas.topics import inputs_of
from headrace_schemas.urls import Partitioner
from tests.frontier.audit import audit

INPUTS = inputs_of("frontier")


def key_of(url: str) -> bytes:
    """Two spellings that differ in a closing slash are one URL, as a canonicaliser may say."""
    return xxhash.xxh3_128_digest(url.rstrip("/").encode())


def link(url: str, depth: int = 0, **more: Any) -> Link:
    return Link(url, key_of(url), depth, **more)


class Page(msgspec.Struct, frozen=True):
    """What the web answers for one URL: the outcomes of the first requests, the last one for ever."""

    outcomes: tuple[Outcome, ...]
    links: tuple[str, ...] = ()


def page(*links: str, size: int = 10) -> Page:
    return Page((Fetched(200, size, "ab"),), links)


def failing(status: int = 503, reason: str = "http", retriable: bool = True, **more: Any) -> Failed:
    return Failed(reason, status, retriable, **more)


def redirect(to: str) -> Page:
    return Page((Redirected(302, to, key_of(to)),))


NOT_FOUND = Page((Failed("http", 404),))
ALLOW_ALL = Page((Robots(404),))


class DesiredState:
    """Stands where `ControlWatch` stands."""

    def __init__(self, settings: CrawlSettings) -> None:
        self.now = Control(1, settings)

    def change(self, **changes: Any) -> None:
        settings = {name: changes.pop(name) for name in list(changes) if name in CrawlSettings.__struct_fields__}
        new = msgspec.structs.replace(self.now.settings, **settings)
        self.now = msgspec.structs.replace(self.now, revision=self.now.revision + 1, settings=new, **changes)


class World:
    def __init__(
        self,
        web: dict[str, Page],
        *,
        partitions: int = 1,
        seed: int = 0,
        crash: float = 0.0,
        tuning: Tuning | None = None,
        retry: RetrySettings | None = None,
        robots: RobotsSettings | None = None,
        breaker: BreakerSettings | None = None,
        audited: bool = True,
        by: str = "host",
        **settings: Any,
    ) -> None:
        self.web, self.random, self.crash, self.audited = web, random.Random(seed), crash, audited
        self.clock = ManualClock()
        self.desired = DesiredState(CrawlSettings(**{"scope_mode": "all", "delay": 0.0, **settings}))
        self.circumstances = Circumstances(self.desired)
        self.partitioner = Partitioner(partitions, by)
        self.registry = CollectorRegistry()
        self.wiring = Wiring(
            circumstances=self.circumstances,
            partitioner=self.partitioner,
            retry=retry or RetrySettings(),
            breaker=breaker or BreakerSettings(),
            robots=robots or RobotsSettings(),
            metrics=Metrics(self.registry),
            tuning=tuning or Tuning(),
            address="here:1",
        )
        self._answered: defaultdict[int, set[int]] = defaultdict(set)
        self.states = [MemoryState() for _ in range(partitions)]
        self.handlers = [self._built(p) for p in range(partitions)]
        self.topics: defaultdict[tuple[str, int], list[Record]] = defaultdict(list)
        self.read: Counter[tuple[str, int]] = Counter()
        self.due: list[float | None] = [0.0] * partitions
        self.progress: dict[int, Progress] = {}
        self.asked: Counter[str] = Counter()
        """Requests by URL, as the web saw them."""
        self.released: list[FetchTask] = []
        self.log: list[tuple[float, FetchTask, Outcome]] = []

    # ---- what a test does ------------------------------------------------------------------------

    def seed(self, *urls: str, **more: Any) -> None:
        self.find(*(link(url, **more) for url in urls))

    def find(self, *links: Link) -> None:
        for found in links:
            self._append(
                Send(
                    "links.discovered", self.partitioner.partition(found.url), self._encoded(DiscoveredLinks((found,)))
                )
            )

    def run(self, most: int = 20_000) -> None:
        """Until nothing is left to do; fails if that does not come."""
        for _ in range(most):
            self.clock.advance(self.random.choice((0.0, 0.001, 0.01)))
            partition = self.random.randrange(len(self.states))
            self.turn(partition)
            if self.random.random() < 0.7:
                self.answer(self.random.randrange(1, 8))
            if not self._busy() and not self._jump():
                return
        raise AssertionError(f"still busy after {most} steps: {self.totals()}")

    def restart(self, partition: int) -> None:
        """What is committed stays, all else is forgotten."""
        self.handlers[partition].close()
        self.handlers[partition] = self._built(partition)

    def turn(self, partition: int, *, most: int = 20) -> Unit:
        """One unit of work of one partition."""
        if self.random.random() < self.crash:
            self._stage(partition, most)
            self.restart(partition)
        unit, due = self._stage(partition, most)
        self.due[partition] = due
        self.states[partition].apply(unit)
        for record in unit.done:
            self.read[record.topic, partition] += 1
        for send in unit.sends:
            self._append(send)
        if not unit.empty:
            self.handlers[partition].committed()
        if self.audited:
            audit(self.states[partition], self.progress.get(partition), self.wiring.tuning)
        return unit

    def settle_down(self, partition: int = 0, most: int = 50) -> None:
        """Turns without a fetcher, until the handler asks for none."""
        for _ in range(most):
            self.turn(partition)
            if not self._unread(partition) and not self._due_now(partition):
                return
        raise AssertionError("the handler wants to be called for ever")

    def answer(self, most: int = 1_000_000, outcome: Outcome | None = None, **facts: Any) -> int:
        """The fetcher answers tasks, in any order. → how many"""
        waiting = self.waiting()
        self.random.shuffle(waiting)
        for partition, record in waiting[:most]:
            self._answer(partition, record, outcome, facts)
        return len(waiting[:most])

    def waiting(self) -> list[tuple[int, Record]]:
        """Tasks not answered."""
        found = []
        for partition in range(len(self.states)):
            answered = self._answered[partition]
            found += [(partition, r) for r in self.topics["urls.to_fetch", partition] if r.offset not in answered]
        return found

    def tasks(self) -> list[FetchTask]:
        return [codec.decode("urls.to_fetch", record.value) for _, record in self.waiting()]

    def totals(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for row in self.progress.values():
            for field in ("queued", "in_flight", "fetched", "redirected", "failed", "refused", "tasks_in_flight"):
                total[field] += getattr(row, field)
            total["discovered"] += row.discovered
            total["behind_budget"] += row.behind_budget
            total["budget_held"] += row.budget_held
        return total

    def reasons(self, field: str) -> Counter[str]:
        total: Counter[str] = Counter()
        for row in self.progress.values():
            total.update(getattr(row, field))
        return total

    def sent(self, topic: str, partition: int = 0) -> list[Any]:
        return [codec.decode(topic, record.value) for record in self.topics[topic, partition]]

    # ---- how it goes -----------------------------------------------------------------------------

    def _built(self, partition: int) -> FrontierHandler:
        return FrontierHandler(partition, self.states[partition], self.wiring)

    def _stage(self, partition: int, most: int) -> tuple[Unit, float | None]:
        records = self._polled(partition, most)
        unit = Unit(self.states[partition])
        due = self.handlers[partition].handle(records, unit, self.clock.now())
        unit.done.extend(records)
        return unit, due

    def _polled(self, partition: int, most: int) -> Sequence[Record]:
        """A random number of each topic, in order within a topic and in any order between them."""
        records: list[Record] = []
        topics = list(INPUTS)
        self.random.shuffle(topics)
        for topic in topics:
            at = self.read[topic, partition]
            records += self.topics[topic, partition][at : at + self.random.randint(0, most)]
        return records

    def _answer(self, partition: int, record: Record, outcome: Outcome | None, facts: dict[str, Any]) -> None:
        self._answered[partition].add(record.offset)
        task: FetchTask = codec.decode("urls.to_fetch", record.value)
        given = outcome or self._outcome(task)
        self.asked[task.url] += 1
        self.log.append((self.clock.now(), task, given))
        links = self.web[task.url].links if isinstance(given, Fetched) else ()
        for url in links:
            self.find(link(url, task.depth + 1, referrer=task.url))
        result = FetchResult(
            task.fetch_id,
            task.url,
            task.key,
            given,
            kind=task.kind,
            depth=task.depth,
            hop=task.hop,
            referrer=task.referrer,
            attempt=task.attempt,
            finished_at=self.clock.now(),
            chain=task.chain,
            run=task.run,
        )
        self._append(Send("fetch.results", partition, self._encoded(msgspec.structs.replace(result, **facts))))
        if self.random.random() < self.crash:  # at least once: a fetcher killed before its commit answers again
            self._append(Send("fetch.results", partition, self._encoded(result)))

    def _outcome(self, task: FetchTask) -> Outcome:
        if task.kind == "robots":
            found = self.web.get(task.url, ALLOW_ALL)
        else:
            found = self.web.get(task.url, NOT_FOUND)
        return found.outcomes[min(self.asked[task.url], len(found.outcomes) - 1)]

    def _append(self, send: Send) -> None:
        log = self.topics[send.topic, send.partition]
        log.append(Record(send.topic, send.partition, len(log), send.key, send.value, self.clock.now()))
        if send.topic == "crawl.progress":
            self.progress[send.partition] = codec.decode(send.topic, send.value)
        elif send.topic == "urls.to_fetch":
            self.released.append(codec.decode(send.topic, send.value))

    def _encoded(self, message: msgspec.Struct) -> bytes:
        return codec.encode(message, self.desired.now.revision)

    def _unread(self, partition: int) -> bool:
        return any(len(self.topics[topic, partition]) > self.read[topic, partition] for topic in INPUTS)

    def _due_now(self, partition: int) -> bool:
        due = self.due[partition]
        return due is not None and due <= self.clock.now()

    def _busy(self) -> bool:
        everyone = range(len(self.states))
        return bool(self.waiting()) or any(self._unread(p) or self._due_now(p) for p in everyone)

    def _jump(self) -> bool:
        """To the next due time. False: there is none."""
        for partition in range(len(self.states)):  # what they say now, not what they said when last called
            self.turn(partition)
        if self._busy():
            return True
        times = [at for at in self.due if at is not None]
        if not times:
            return False
        self.clock.time = max(self.clock.time, min(times)) + 0.001
        return True
