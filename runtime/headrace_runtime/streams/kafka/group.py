"""This process's part in one group: its consumer, the lanes of the partitions it was given, and their handover."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from aiokafka import ConsumerRebalanceListener, TopicPartition
from aiokafka import errors as kafka

from headrace_runtime.clock import Deadline
from headrace_runtime.logs import get_logger
from headrace_runtime.streams.kafka import offsets
from headrace_runtime.streams.kafka.client import closed
from headrace_runtime.streams.kafka.errors import translate
from headrace_runtime.streams.kafka.lane import LaneParts, Place
from headrace_runtime.streams.kafka.prefix import PrefixLane
from headrace_runtime.streams.kafka.transactional import TransactionalLane
from headrace_runtime.streams.kafka.watchdog import Watchdog
from headrace_runtime.streams.seams import Lane, Serve, Stalled
from headrace_schemas.errors import Fenced, HeadraceError, LaneLost, Unavailable

log = get_logger("streams")

AnyLane = PrefixLane | TransactionalLane
MakeLane = Callable[[LaneParts, Place], AnyLane]

_POLL_MS = 200
_POLL_RECORDS = 2_000
_SETTLE = 0.15  # seconds between two commits of offsets
_LOOK = 10.0  # seconds between two looks for stalls
_REVOKE_SECONDS = 10.0
_CLOSE_SECONDS = 5.0
_SELDOM = 60.0  # seconds between two lines of the same trouble
_REOPEN = (0.05, 5.0)
"""Seconds before a lost lane is opened again: doubles while it keeps failing."""


class KafkaMembership:
    """`run` holds three tasks (pump, settle, watch) and one per partition (open, serve, close, again)."""

    def __init__(
        self, parts: LaneParts, serve: Serve, make: MakeLane, leave: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """`leave`: after an orderly stop, for a static member that is not to be waited for."""
        self._parts, self._serve, self._make, self._leave = parts, serve, make, leave
        self._lanes: dict[int, AnyLane] = {}
        self._lives: dict[int, asyncio.Task[None]] = {}
        self._waiting: dict[int, tuple[float, str]] = {}
        """Partitions that cannot be opened now: since when, and why."""
        self._error: BaseException | None = None
        self._ended = asyncio.Event()
        self._closed = asyncio.Event()
        self._running = False
        self._stopping = False

    @property
    def lanes(self) -> Sequence[Lane]:
        return [lane for _, lane in sorted(self._lanes.items())]

    @property
    def stalled(self) -> Stalled | None:
        if silence := self._parts.pulse.silence:
            return Stalled(f"no answer from Kafka for {silence:.0f} s", silence)
        if not self._waiting:
            return None
        since, why = min(self._waiting.values())
        return Stalled(why, self._parts.clock.monotonic() - since)

    async def run(self) -> None:
        if self._ended.is_set():
            return
        self._running = True
        tasks = [asyncio.create_task(part) for part in (self._pump(), self._settle(), self._watch())]
        for task in tasks:
            task.add_done_callback(self._ended_with)
        try:
            topics = [self._parts.cluster.named(topic) for topic in self._parts.topics]
            self._parts.consumer.subscribe(topics, listener=_Listener(self))
            await self._ended.wait()
        finally:
            self._stopping = True
            await self._retire(Deadline(0.0))
            for task in tasks[1:]:
                task.cancel()
            await closed(self._parts.consumer)
            tasks[0].cancel()  # only now: a cancelled getmany loses records of a consumer that lives on
            await asyncio.gather(*tasks, return_exceptions=True)
            if self._leave is not None and self._error is None:
                await self._leave()
            self._closed.set()
        if self._error is not None:
            raise self._error

    async def stop(self, deadline: Deadline) -> None:
        self._stopping = True
        await self._retire(deadline)  # the consumer's own stop does not call the listener
        self._ended.set()
        if self._running:
            await self._closed.wait()
        else:
            await closed(self._parts.consumer)

    # ---- handover: called by the listener -----------------------------------------------------------------------

    def assigned(self, partitions: set[TopicPartition]) -> None:
        """Heartbeats stand still in here: only pause; opening a lane takes as long as its state is large."""
        if partitions:
            self._parts.consumer.pause(*partitions)
        self._parts.pulse.joined()
        self._parts.rebalances.inc()
        numbers = sorted({at.partition for at in partitions})
        if self._stopping:
            return
        for number in numbers:
            inputs = sorted(at for at in partitions if at.partition == number)
            self._lives[number] = asyncio.create_task(self._live(Place(number, inputs, len(numbers))))

    async def revoked(self) -> None:
        """Every rebalance takes everything: there is no cooperative one in aiokafka."""
        await self._retire(Deadline(_REVOKE_SECONDS, self._parts.clock))

    async def _retire(self, deadline: Deadline) -> None:
        """Stop intake → drain until the deadline → cancel the rest → flush and commit, in each lane's own close."""
        for number, life in self._lives.items():
            lane = self._lanes.get(number)
            if lane is None:
                life.cancel()  # still opening: nothing to drain
            else:
                lane.stop(deadline)
        lives = list(self._lives.values())
        if lives:
            _, late = await asyncio.wait(lives, timeout=deadline.left)
            for life in late:
                life.cancel()
            await asyncio.gather(*lives, return_exceptions=True)
        for number, life in list(self._lives.items()):
            if life in lives:
                del self._lives[number]
                self._waiting.pop(number, None)

    # ---- the life of one partition ------------------------------------------------------------------------------

    async def _live(self, place: Place) -> None:
        wait, longest = _REOPEN
        try:
            while True:
                lane = self._make(self._parts, place)
                lost = await self._once(lane)
                if lost is None or lane.stopping is not None:
                    return
                log.seldom(
                    f"{lane.group} {type(lost).__name__}",
                    _SELDOM,
                    "a partition is opened anew",
                    group=lane.group,
                    partition=place.partition,
                    why=str(lost),
                )
                if isinstance(lost, Fenced):
                    await self._confirmed()
                if isinstance(lost, Unavailable):
                    self._waiting.setdefault(place.partition, (self._parts.clock.monotonic(), str(lost)))
                await asyncio.sleep(wait)
                wait = min(longest, 2 * wait)
        except kafka.IllegalStateError:
            return  # taken away while it was being opened
        except Exception as error:
            self._fail(translate(error, "a lane") if isinstance(error, kafka.KafkaError) else error)

    async def _once(self, lane: AnyLane) -> HeadraceError | None:
        """One lane from open to close. → why it is to be opened anew, if it is."""
        try:
            try:
                await lane.open()
            except Unavailable as error:
                return error
            self._lanes[lane.partition] = lane
            self._waiting.pop(lane.partition, None)
            await self._serve(lane)
            return None
        except (LaneLost, Fenced) as error:
            return error
        finally:
            self._lanes.pop(lane.partition, None)
            await _to_its_end(self._close(lane))

    async def _confirmed(self) -> None:
        """Opening again fences the other side. So only once the group says that the partition is still ours; if it is
        not, the revoke that follows ends this."""
        await self._parts.pulse.confirmation()

    async def _close(self, lane: AnyLane) -> None:
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await lane.close()
        except (LaneLost, TimeoutError) as error:
            log.info("closed without the last commit", group=lane.group, partition=lane.partition, why=str(error))

    # ---- the three tasks ----------------------------------------------------------------------------------------

    async def _pump(self) -> None:
        """Never cancelled while it matters, polls shortly; blocks through a rebalance."""
        consumer = self._parts.consumer
        while True:
            try:
                got = await consumer.getmany(timeout_ms=_POLL_MS, max_records=_POLL_RECORDS)
            except kafka.NoOffsetForPartitionError:
                continue  # a lane seeks by itself when it opens
            except kafka.ConsumerStoppedError:
                return
            except kafka.KafkaError as error:
                known = translate(error, f"group {self._parts.group}")
                if not known.retriable:
                    raise known from error
                log.seldom(self._parts.group, _SELDOM, "cannot read", group=self._parts.group, why=str(known))
                await asyncio.sleep(0.5)
                continue
            for at, records in got.items():
                lane = self._lanes.get(at.partition)
                if lane is not None:  # what comes for a lane still opening is read again: opening seeks
                    lane.feed(at, records)

    async def _settle(self) -> None:
        """Commits the prefixes of all stateless lanes in one request."""
        while True:
            await asyncio.sleep(_SETTLE)
            lanes = [lane for lane in self._lanes.values() if isinstance(lane, PrefixLane)]
            entries: dict[TopicPartition, tuple[int, str]] = {}
            try:
                for lane in lanes:
                    entries |= await lane.unsettled()
                if entries:
                    await self._parts.consumer.commit(entries)
            except (kafka.CommitFailedError, kafka.IllegalStateError) as error:
                log.info("not committed, the group is rebalancing", group=self._parts.group, why=str(error))
                continue
            except kafka.KafkaError as error:
                known = translate(error, f"committing offsets of {self._parts.group}")
                if not known.retriable:
                    raise known from error
                continue
            for lane in lanes:
                lane.settled(entries)

    async def _watch(self) -> None:
        watchdog = Watchdog(self._parts.clock)
        consumer, lookup = self._parts.consumer, self._parts.lookup
        while True:
            await asyncio.sleep(_LOOK)
            readable = [at for lane in self._lanes.values() for at in lane.readable()]
            try:
                positions = {at: await consumer.position(at) for at in readable}
                ends = await offsets.ends(lookup, readable) if readable else {}
            except (HeadraceError, kafka.KafkaError, kafka.IllegalStateError):
                watchdog.forget()
                continue
            watchdog.see(positions, ends)

    def _ended_with(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self._ended.set()


async def _to_its_end(closing: Coroutine[Any, Any, None]) -> None:
    """A lane that is cancelled while it closes would leave its producer and its files open."""
    task = asyncio.create_task(closing)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """aiokafka logs and swallows what a listener raises: it is latched, and raised out of `run`."""

    def __init__(self, membership: KafkaMembership) -> None:
        self._membership = membership

    async def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        try:
            await self._membership.revoked()
        except Exception as error:
            self._membership._fail(error)

    async def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        try:
            self._membership.assigned(assigned)
        except Exception as error:
            self._membership._fail(error)
