"""A message that cannot be read goes to `dead.letters`, in the unit of work that passes over it."""

from typing import Any

from headrace_runtime.streams.seams import Record, Send
from headrace_schemas import codec
from headrace_schemas.errors import Poison
from headrace_schemas.messages import DeadLetter


def read(record: Record) -> Any:
    """The message in `record`; raises `Poison`, or `TooNew`."""
    return codec.decode(record.topic, record.value)


def bury(record: Record, group: str, why: Poison | str, at: float) -> Send:
    letter = DeadLetter(
        record.topic, record.partition, record.offset, record.key, record.value, group, str(why)[:1000], at
    )
    return Send("dead.letters", 0, codec.encode(letter), record.key)
