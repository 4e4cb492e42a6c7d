"""The one idempotent producer of a process, for everything that is not part of a transaction."""

import asyncio
from collections.abc import Sequence

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from headrace_runtime.streams.kafka.client import Cluster, closed
from headrace_runtime.streams.kafka.delivery import Delivery, Message
from headrace_runtime.streams.kafka.errors import translate
from headrace_schemas.errors import LaneLost


class Outlet:
    """Acknowledged when `send` returns. Waits through an outage of the broker: an idempotent batch never expires."""

    def __init__(self, cluster: Cluster, producer: AIOKafkaProducer, delivery: Delivery) -> None:
        self._cluster, self._producer, self._delivery = cluster, producer, delivery
        self._renewing = asyncio.Lock()

    async def send(self, messages: Sequence[Message]) -> None:
        if not messages:
            return
        producer = self._producer
        try:
            await self._delivery.deliver(producer, messages)
        except KafkaError as error:
            if producer._sender.sender_task.done():  # its sequence is broken: nothing goes through it any more
                await self._renew(producer)
                raise LaneLost(f"sending: {error}") from error
            raise translate(error, f"sending to {messages[0].at.topic}") from error

    async def _renew(self, broken: AIOKafkaProducer) -> None:
        async with self._renewing:
            if self._producer is broken:
                self._producer = await self._cluster.producer()
                await closed(broken)

    async def close(self) -> None:
        await closed(self._producer)
