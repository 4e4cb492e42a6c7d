"""Messages written by every release so far are read by this one."""

from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from msgspec import Struct

from headrace_schemas import codec
from headrace_schemas.messages import Outcome
from headrace_schemas.topics import TOPICS
from tests.schemas.golden import FOLDER, REVISION, SUMS, golden_file, sum_of
from tests.schemas.samples import SAMPLES, WORDS


@pytest.mark.parametrize("name", SAMPLES)
def test_an_old_message_means_today_what_it_meant_then(name: str) -> None:
    topic, message = SAMPLES[name]
    value = golden_file(name).read_bytes()
    assert codec.decode(topic, value) == message
    assert codec.revision_of(value) == REVISION


@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - WORDS.keys()))
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


def test_a_golden_file_is_never_written_anew() -> None:
    """If this fails, today's code no longer reads what it wrote yesterday: append a field, or raise the version."""
    assert sorted(SUMS.read_text().splitlines()) == sorted(sum_of(file) for file in FOLDER.glob("*.bin"))


def test_there_is_a_golden_file_of_every_sample_and_a_sample_of_every_golden_file() -> None:
    """Missing ones are written by `python -m tests.schemas.golden`."""
    assert {path.name for path in FOLDER.glob("*.bin")} == {golden_file(name).name for name in SAMPLES}


def test_every_type_of_every_topic_has_a_sample_under_that_topic() -> None:
    sampled = {(topic, type(message)) for topic, message in SAMPLES.values()}
    assert sampled == {(topic.name, kind) for topic in TOPICS.values() for kind in topic.types}


def test_every_type_within_a_message_and_every_variant_of_a_union_has_a_sample() -> None:
    """Found by walking the types: one that is added anywhere below a topic, and nowhere in the samples, fails here."""
    wanted = {kind for topic in TOPICS.values() for root in topic.types for kind in _types_within(root)}
    sampled = {type(part) for _, message in SAMPLES.values() for part in _parts(message)}
    assert sampled == wanted
    assert set(get_args(Outcome)) <= wanted


def test_every_field_is_away_from_its_default_in_some_sample() -> None:
    """One that is appended wants a sample of its own: a file that never held it does not show that it is read."""
    unset: dict[tuple[str, str], bool] = {}
    for _, message in SAMPLES.values():
        for part in _parts(message):
            for field in msgspec.structs.fields(part):
                place = (type(part).__name__, field.name)
                unset[place] = unset.get(place, True) and getattr(part, field.name) == field.default
    assert {place for place, is_unset in unset.items() if is_unset} == {("Layout", "format")}  # it has one value yet


def _types_within(kind: Any) -> Iterator[type[Struct]]:
    """The message types that a value of this type may hold, itself included."""
    if isinstance(kind, type) and issubclass(kind, Struct):
        yield kind
        for hint in get_type_hints(kind).values():
            yield from _types_within(hint)
    for argument in get_args(kind):
        yield from _types_within(argument)


def _parts(value: Any) -> Iterator[Struct]:
    if isinstance(value, tuple):
        for entry in value:
            yield from _parts(entry)
    elif isinstance(value, Struct):
        yield value
        for field in value.__struct_fields__:
            yield from _parts(getattr(value, field))
