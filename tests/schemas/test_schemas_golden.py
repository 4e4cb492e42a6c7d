"""Messages written by every release so far are read by this one."""

from typing import get_args

import msgspec
import pytest

from headrace_schemas import codec
from headrace_schemas.messages import Outcome
from headrace_schemas.topics import TOPICS
from tests.schemas.golden import FOLDER, REVISION, golden_file
from tests.schemas.samples import SAMPLES


@pytest.mark.parametrize("name", SAMPLES)
def test_an_old_message_means_today_what_it_meant_then(name: str) -> None:
    topic, message = SAMPLES[name]
    value = golden_file(name).read_bytes()
    assert codec.decode(topic, value) == message
    assert codec.revision_of(value) == REVISION


@pytest.mark.parametrize("name", SAMPLES)
def test_no_field_of_a_golden_file_was_left_at_its_default_when_it_was_written(name: str) -> None:
    """A default would be read back even if the field were lost; Link's second sample is the exception on purpose."""
    _, message = SAMPLES[name]
    defaults = dict(zip(message.__struct_fields__[::-1], message.__struct_defaults__[::-1], strict=False))
    raw = msgspec.msgpack.decode(golden_file(name).read_bytes()[6:])
    written = len(raw) - 1 if isinstance(raw, list) else None  # the tag
    for field in message.__struct_fields__[:written]:
        is_in_file = written is not None or field in raw
        unset = field == "format"  # its only value yet
        assert unset or not is_in_file or field not in defaults or getattr(message, field) != defaults[field], field


def test_every_type_of_every_topic_and_every_outcome_has_a_golden_file() -> None:
    sampled = {type(message) for _, message in SAMPLES.values()}
    assert sampled == {kind for topic in TOPICS.values() for kind in topic.types}
    outcomes = {type(message.outcome) for _, message in SAMPLES.values() if hasattr(message, "outcome")}
    assert outcomes == set(get_args(Outcome))
    assert {path.name for path in FOLDER.glob("*.bin")} == {golden_file(name).name for name in SAMPLES}
