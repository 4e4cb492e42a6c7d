"""A question that any broker can answer is asked again when the one that was chosen is away."""

import pytest
from aiokafka.errors import KafkaError, NodeNotReadyError, TopicAuthorizationFailedError

from headrace_runtime.streams.kafka import client
from headrace_runtime.streams.kafka.client import answered


class Brokers:
    """Answer after so many errors."""

    def __init__(self, *errors: KafkaError) -> None:
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
