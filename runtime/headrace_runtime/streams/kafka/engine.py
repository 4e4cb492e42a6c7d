"""`Streams` on Kafka: composes the parts of this folder."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError
from prometheus_client import CollectorRegistry

from headrace_runtime.clock import Clock, Deadline
from headrace_runtime.streams.kafka import janitor, offsets, topics
from headrace_runtime.streams.kafka.client import Cluster, answered, closed
from headrace_runtime.streams.kafka.delivery import Delivery, Message
from headrace_runtime.streams.kafka.errors import translate
from headrace_runtime.streams.kafka.group import AnyLane, KafkaMembership
from headrace_runtime.streams.kafka.identity import Identity
from headrace_runtime.streams.kafka.lane import LaneParts, Place
from headrace_runtime.streams.kafka.meters import KafkaMeters
from headrace_runtime.streams.kafka.outlet import Outlet
from headrace_runtime.streams.kafka.prefix import PrefixLane
from headrace_runtime.streams.kafka.pulse import Pulse, Ticker
from headrace_runtime.streams.kafka.restore import Restorer
from headrace_runtime.streams.kafka.table import KafkaTable
from headrace_runtime.streams.kafka.transactional import TransactionalLane
from headrace_runtime.streams.seams import Edge, Send, Serve
from headrace_schemas.errors import FatalError, Unavailable
from headrace_schemas.topics import TOPICS

_PUBLISH_SECONDS = 60.0
_REBALANCE_SECONDS = 60.0
_HEARTBEAT_SECONDS = 3.0
_FETCH_PARTITION = 1 << 20
_FETCH = 16 << 20
"""Bytes of one fetch: a larger message still comes, alone."""


class KafkaStreams:
    """One per process. `open` it; everything it made is closed by `close`."""

    def __init__(
        self,
        cluster: Cluster,
        admin: AIOKafkaAdminClient,
        outlet: Outlet,
        delivery: Delivery,
        stable: AIOKafkaConsumer,
        latest: AIOKafkaConsumer,
        restorer: Restorer,
        meters: KafkaMeters,
        instance: str,
        session_timeout: float,
    ) -> None:
        self._cluster, self._admin = cluster, admin
        self._outlet, self._delivery, self._restorer = outlet, delivery, restorer
        self._stable, self._latest, self._meters = stable, latest, meters
        self._instance, self._session_timeout = instance, session_timeout
        self._ticker = Ticker(cluster.clock)
        self._checked = False
        self._memberships: list[KafkaMembership] = []
        self._tables: list[KafkaTable] = []

    @classmethod
    async def open(
        cls,
        *,
        bootstrap: list[str],
        prefix: str,
        partitions: int,
        state: Path,
        instance: str,
        session_timeout: float,
        clock: Clock,
        registry: CollectorRegistry | None = None,
    ) -> "KafkaStreams":
        """`Unavailable`, naming the address, when no broker answers."""
        cluster = Cluster(bootstrap, prefix, partitions, clock)
        admin = await cluster.admin()
        made: list[object] = [admin]
        try:
            producer = await cluster.producer()
            made.append(producer)
            stable = await cluster.lookup()
            made.append(stable)
            latest = await cluster.lookup(committed=False)
            made.append(latest)
            cluster_id = str((await answered(admin.describe_cluster)).get("cluster_id", ""))
        except BaseException as error:
            for client in made:
                await closed(client)
            if isinstance(error, KafkaError):
                raise translate(error, "opening the cluster") from error
            raise
        delivery = Delivery(clock)
        outlet = Outlet(cluster, producer, delivery)
        meters = KafkaMeters.of(registry or CollectorRegistry())
        restorer = Restorer(cluster, stable, state, cluster_id, clock, meters)
        return cls(cluster, admin, outlet, delivery, stable, latest, restorer, meters, instance, session_timeout)

    @property
    def partitions(self) -> int:
        return self._cluster.partitions

    async def join(
        self, group: str, topics: Sequence[str], serve: Serve, *, stateful: bool = False, since: float | None = None
    ) -> KafkaMembership:
        for topic in topics:
            self._kind(topic, "work", "audit")
        if stateful:
            self._kind(f"{group}.changelog", "changelog")
        await self._require_topics()
        identity = self._identity(group)
        consumer = await self._member(group, identity)
        clock = self._cluster.clock
        pulse = Pulse(self._ticker, self._session_timeout, clock)
        pulse.watch(consumer)
        parts = LaneParts(
            self._cluster,
            consumer,
            self._admin,
            self._stable,
            self._delivery,
            pulse,
            clock,
            self._meters.rebalances.labels(group),
            group,
            topics,
            since,
        )
        make = self._stateful_lane if stateful else self._stateless_lane
        # Who keeps state stays a member while it is started anew: what it had would have to be restored by another.
        membership = KafkaMembership(parts, serve, make, leave=None if stateful or not identity else identity.leave)
        self._memberships.append(membership)
        return membership

    async def publish(self, sends: Iterable[Send]) -> None:
        await self._require_topics()
        at = self._cluster.at
        messages = [Message(at(send.topic, send.partition), send.key or None, send.value) for send in sends]
        try:
            async with asyncio.timeout(_PUBLISH_SECONDS):
                await self._outlet.send(messages)
        except TimeoutError:
            raise Unavailable(f"not acknowledged by Kafka within {_PUBLISH_SECONDS:.0f} s") from None

    async def edges(self, edges: Iterable[tuple[str, str]]) -> list[Edge]:
        """Committed first, ends after: equal then means that all was read at the time of the second look."""
        wanted = [(self._kind(topic, "work", "audit"), group, self._cluster.all_of(topic)) for topic, group in edges]
        await self._require_topics()
        read = {}
        for group in {group for _, group, _ in wanted}:
            ats = [at for _, other, ats in wanted if other == group for at in ats]
            read[group] = await offsets.committed(self._admin, self._cluster.named(group), ats)
        every = {at for _, _, ats in wanted for at in ats}
        fresh = {at for _, group, ats in wanted for at in ats if at not in read[group]}
        begins = await offsets.begins(self._latest, fresh) if fresh else {}
        ends = await offsets.ends(self._latest, every) if every else {}
        return [
            Edge(topic, group, at.partition, read[group][at].offset if at in read[group] else begins[at], ends[at])
            for topic, group, ats in wanted
            for at in ats
        ]

    async def begins(self, topic: str) -> list[int]:
        self._kind(topic, "work", "audit")
        await self._require_topics()
        ats = self._cluster.all_of(topic)
        found = await offsets.begins(self._latest, ats)
        return [found[at] for at in ats]

    async def trim(self, keep: Mapping[str, float], allowed: Callable[[], bool]) -> dict[str, int]:
        await self._require_topics()
        deleted = {}
        for topic, seconds in keep.items():
            self._kind(topic, "work")
            if not allowed():
                break
            deleted[topic] = await janitor.trim(self._cluster, self._admin, self._stable, topic, seconds)
        return deleted

    async def table(self, topic: str) -> KafkaTable:
        self._kind(topic, "table")
        await self._require_topics()
        consumer = await self._cluster.consumer(committed=False)
        table = await KafkaTable.open(consumer, self._cluster.all_of(topic))
        self._tables.append(table)
        return table

    async def close(self) -> None:
        self._ticker.stop()
        for membership in self._memberships:
            await membership.stop(Deadline(0.0))
        for table in self._tables:
            await table.close()
        await self._outlet.close()
        for client in (self._stable, self._latest, self._admin):
            await closed(client)

    def _kind(self, topic: str, *kinds: str) -> str:
        found = TOPICS[topic].kind if topic in TOPICS else "unknown"
        if found not in kinds:
            raise FatalError(f"topic {topic} is {found}, not {' or '.join(kinds)}")
        return topic

    async def _require_topics(self) -> None:
        """Before a client asks for a topic by name: a broker may create what it is asked for."""
        if not self._checked:
            topics.check(await topics.existing(self._admin, self._cluster), self._cluster)
            self._checked = True

    def _identity(self, group: str) -> Identity | None:
        if not self._instance:
            return None
        named = self._cluster.named
        mark = self._restorer.folder / f"{group}.taken"
        return Identity(self._admin, named(group), named(f"{group}-{self._instance}"), mark)

    async def _member(self, group: str, identity: Identity | None) -> AIOKafkaConsumer:
        """Exactly one assignor, range: it gives partition p of all topics to one member. Timeouts are set because the
        defaults tie the rebalance to a session of 10 s."""
        session = self._session_timeout
        consumer = await self._cluster.consumer(
            group_id=self._cluster.named(group),
            group_instance_id=identity.instance if identity else None,
            partition_assignment_strategy=(RangePartitionAssignor,),
            session_timeout_ms=int(session * 1000),
            heartbeat_interval_ms=int(min(_HEARTBEAT_SECONDS, session / 4) * 1000),
            rebalance_timeout_ms=int(_REBALANCE_SECONDS * 1000),
            max_partition_fetch_bytes=_FETCH_PARTITION,
            fetch_max_bytes=_FETCH,
            fetch_max_wait_ms=200,
        )
        if identity is not None:
            identity.watch(consumer)
        return consumer

    def _stateful_lane(self, parts: LaneParts, place: Place) -> AnyLane:
        return TransactionalLane(parts, place, self._restorer)

    def _stateless_lane(self, parts: LaneParts, place: Place) -> AnyLane:
        return PrefixLane(parts, place, self._outlet)
