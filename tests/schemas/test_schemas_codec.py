"""What is on the wire, and what is done with what should not be there."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_schemas import codec
from headrace_schemas.errors import Poison, TooNew
from headrace_schemas.messages import BudgetGrant, BudgetReturn, FetchResult, FetchTask, NotModified
from headrace_schemas.topics import TOPICS
from tests.schemas.samples import SAMPLES

DECODABLE = [name for name, topic in TOPICS.items() if topic.types]


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_encoded_decodes_to_itself(name: str) -> None:
    topic, message = SAMPLES[name]
    assert codec.decode(topic, codec.encode(message)) == message


def test_the_header_is_magic_version_and_revision() -> None:
    value = codec.encode(BudgetReturn(1, 2), revision=0x01020304)
    assert value[:6] == b"H\x01\x01\x02\x03\x04"
    assert codec.revision_of(value) == 0x01020304
    assert codec.revision_of(codec.encode(BudgetReturn(1, 2))) == 0


def test_the_types_of_a_topic_are_told_apart_by_their_tag() -> None:
    assert codec.decode("frontier.budget", codec.encode(BudgetGrant(1, 2, 3))) == BudgetGrant(1, 2, 3)
    assert codec.decode("frontier.budget", codec.encode(BudgetReturn(1, 2))) == BudgetReturn(1, 2)


def test_a_message_of_another_topic_is_poison() -> None:
    with pytest.raises(Poison, match=r"^urls\.to_fetch: "):
        codec.decode("urls.to_fetch", codec.encode(BudgetReturn(1, 2)))


def test_a_newer_format_stops_the_reader_instead_of_losing_the_message() -> None:
    value = bytearray(codec.encode(BudgetReturn(1, 2)))
    value[1] = codec.VERSION + 1
    with pytest.raises(TooNew, match="format 2"):
        codec.decode("frontier.budget", bytes(value))


def of_a_newer_release(name: str, **changed: object) -> bytes:
    """The sample as one would send it that knows more words."""
    message = SAMPLES[name][1]
    raw = msgspec.to_builtins(message, builtin_types=(bytes,))
    for field, value in changed.items():
        raw[field if isinstance(raw, dict) else 1 + message.__struct_fields__.index(field)] = value
    return codec.encode(message)[:6] + msgspec.msgpack.encode(raw)


def test_words_of_a_newer_release_stop_the_reader_instead_of_losing_the_message() -> None:
    """A new type of message, a new outcome, a new choice."""
    with pytest.raises(TooNew, match=r"pages\.fetched: 'screenshot' is nothing that this release knows: upgrade it"):
        codec.decode("pages.fetched", of_a_newer_release("not_modified", type="screenshot"))
    result = next(name for name, (_, message) in SAMPLES.items() if isinstance(message, FetchResult))
    with pytest.raises(TooNew, match="'rendered'"):
        codec.decode("fetch.results", of_a_newer_release(result, outcome=["rendered", 1]))
    with pytest.raises(TooNew, match="'feed'"):
        codec.decode("urls.to_fetch", of_a_newer_release("task", kind="feed"))
    with pytest.raises(Poison):
        codec.decode("urls.to_fetch", of_a_newer_release("task", kind=7))


def test_fields_that_a_newer_release_appended_are_passed_over() -> None:
    task = msgspec.to_builtins(SAMPLES["task"][1], builtin_types=(bytes,))
    appended = codec.encode(SAMPLES["task"][1])[:6] + msgspec.msgpack.encode([*task, "new", {"more": 1}])
    assert codec.decode("urls.to_fetch", appended) == SAMPLES["task"][1]
    page = msgspec.to_builtins(SAMPLES["not_modified"][1], builtin_types=(bytes,))
    appended = codec.encode(SAMPLES["task"][1])[:6] + msgspec.msgpack.encode(page | {"new": 1})
    assert codec.decode("pages.fetched", appended) == SAMPLES["not_modified"][1]


def test_fields_that_an_older_release_did_not_know_are_at_their_defaults() -> None:
    required = FetchTask(1, "http://a/", b"k" * 16, "a", 1.0, 2.0)
    header = codec.encode(required)[:6]
    short = header + msgspec.msgpack.encode(["task", 1, "http://a/", b"k" * 16, "a", 1.0, 2.0])
    assert codec.decode("urls.to_fetch", short) == required
    page = {"type": "not_modified", "fetch_id": 1, "url": "http://a/", "key": b"k", "fetched_at": 2.0}
    assert codec.decode("pages.fetched", header + msgspec.msgpack.encode(page)) == NotModified(
        1, "http://a/", b"k", 2.0
    )


@pytest.mark.parametrize(
    "value", [b"", b"H", b"H\x01\x00\x00\x00", b"X\x01\x00\x00\x00\x00\x90", b"H\x00\x00\x00\x00\x00"]
)
def test_what_has_no_header_is_poison(value: bytes) -> None:
    with pytest.raises(Poison):
        codec.decode("urls.to_fetch", value)


@pytest.mark.parametrize(
    "extra",
    [b"\x91" * 200_000, b"\xa1\xff", b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff"],
    ids=["deep", "text", "array", "bytes"],
)
def test_what_breaks_decoders_is_poison_too(extra: bytes) -> None:
    """Nesting without end, text that is not UTF-8, and lengths of 4 GiB that are not there."""
    head = b"H\x01\x00\x00\x00\x00"
    appended = head + b"\x98\xa4task\x01\xa1u\xc4\x01k\xa1h\x01\x01" + extra
    with pytest.raises(Poison):
        codec.decode("urls.to_fetch", appended)
    with pytest.raises(Poison):
        codec.decode("pages.fetched", head + b"\x82\xa4type\xa4page\xa3new" + extra)


@given(st.sampled_from(DECODABLE), st.binary(max_size=200))
def test_garbage_is_poison_and_never_anything_else(topic: str, body: bytes) -> None:
    for value in (body, b"H\x01\x00\x00\x00\x00" + body):
        try:
            codec.decode(topic, value)
        except (Poison, TooNew):
            pass


@given(st.sampled_from(list(SAMPLES)), st.integers(min_value=0), st.integers(0, 255))
def test_a_flipped_byte_or_a_cut_is_poison_or_a_message(name: str, where: int, byte: int) -> None:
    topic, message = SAMPLES[name]
    value = bytearray(codec.encode(message))
    cut = where % len(value)
    with pytest.raises(Poison):
        codec.decode(topic, bytes(value[:cut]))
    value[cut] = byte
    try:
        codec.decode(topic, bytes(value))
    except (Poison, TooNew):
        pass
