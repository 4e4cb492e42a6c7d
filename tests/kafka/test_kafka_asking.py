"""A question that any broker can answer is asked again when the one that was chosen is away."""

import asyncio

import pytest
from aiokafka.errors import NodeNotReadyError, TopicAuthorizationFailedError

from headrace_runtime.streams.kafka import client
from headrace_runtime.streams.kafka.client import answered, closed

DIED = "unable to perform operation on <TCPTransport closed=True reading=False 0x1>; the handler is closed"
"""What uvloop says of a connection that is gone."""


class Brokers:
    """Answer after so many errors."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.asked = list(errors), 0

    async def ask(self) -> str:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_PAUSE", 0.0)


async def test_one_that_is_away_is_not_the_end() -> None:
    brokers = Brokers(NodeNotReadyError(), NodeNotReadyError())
    assert await answered(brokers.ask) == "answer"
    assert brokers.asked == 3


async def test_a_connection_closed_under_us_is_as_good_as_a_broker_that_is_away() -> None:
    assert await answered(Brokers(RuntimeError(DIED)).ask) == "answer"
    with pytest.raises(RuntimeError, match="a mistake"):
        await answered(Brokers(RuntimeError("a mistake")).ask)


class Closing:
    """A client whose own tasks are cancelled, and waited for, in its end, as aiokafka does."""

    def __init__(self) -> None:
        self._client, self.cut = self, False

    async def stop(self) -> None:
        own = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        own.cancel()
        await own

    async def close(self) -> None:
        self.cut = True


async def test_a_client_that_trips_over_its_own_tasks_does_not_end_whoever_closes_it() -> None:
    client = Closing()
    await closed(client)
    assert client.cut


async def test_a_client_whose_connection_died_is_closed_all_the_same() -> None:
    class Died(Closing):
        async def stop(self) -> None:
            raise RuntimeError(DIED)

    client = Died()
    await closed(client)
    assert client.cut


async def test_a_mistake_in_closing_a_client_is_not_taken_for_a_dead_connection() -> None:
    class Mistaken(Closing):
        async def stop(self) -> None:
            raise RuntimeError("a mistake")

    with pytest.raises(RuntimeError, match="a mistake"):
        await closed(Mistaken())


async def test_what_no_other_broker_would_answer_differently_is_raised_at_once() -> None:
    brokers = Brokers(TopicAuthorizationFailedError())
    with pytest.raises(TopicAuthorizationFailedError):
        await answered(brokers.ask)
    assert brokers.asked == 1


async def test_if_all_are_away_it_ends() -> None:
    brokers = Brokers(*(NodeNotReadyError() for _ in range(1_000)))
    with pytest.raises(NodeNotReadyError):
        await answered(brokers.ask)
    assert brokers.asked < 100
