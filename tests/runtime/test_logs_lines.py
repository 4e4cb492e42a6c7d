"""A log line in both formats, whatever is in it."""

import io
import json
import logging
import re
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_runtime import logs
from headrace_runtime.clock import ManualClock


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    before = root.level, list(root.handlers)
    yield
    root.setLevel(before[0])
    root.handlers[:] = before[1]


def human(level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    logs.setup("human", level, stream)
    return stream


def as_json(level: str = "info") -> io.StringIO:
    stream = io.StringIO()
    logs.setup("json", level, stream)
    return stream


def test_a_human_line() -> None:
    stream = human()
    logs.get_logger("fetcher").info("lane opened", partition=3, wait=0.1234567891)
    assert re.fullmatch(r"\d\d:\d\d:\d\d info  fetcher  lane opened partition=3 wait=0.123457\n", stream.getvalue())


def test_a_json_line() -> None:
    stream = as_json()
    logs.get_logger("fetcher").warning("lane lost", partition=3, topics=["a"], raw=b"\xff")
    line = json.loads(stream.getvalue())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("ts"))
    assert line == {
        "level": "warning",
        "logger": "fetcher",
        "event": "lane lost",
        "partition": 3,
        "topics": ["a"],
        "raw": "\\xff",
    }


def test_the_level_holds_for_us_and_others_speak_from_warning_on() -> None:
    stream = human("debug")
    logs.get_logger("fetcher").debug("seen")
    logging.getLogger("aiokafka.consumer").info("not seen")
    logging.getLogger("asyncio").warning("slow %s", "callback")
    assert stream.getvalue().count("\n") == 2
    assert "warn  asyncio  slow callback" in stream.getvalue()

    stream = human("error")
    logs.get_logger("fetcher").warning("not seen")
    logging.getLogger("asyncio").warning("not seen")
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("headrace.fetcher", "fetcher"),
        ("headrace_frontier.handler", "frontier"),
        ("headrace_runtime.streams.kafka.group", "streams"),
        ("headrace", "headrace"),
    ],
)
def test_a_logger_of_the_standard_library_in_our_packages_is_ours(name: str, shown: str) -> None:
    stream = as_json()
    logging.getLogger(name).info("seen %d", 1)
    line = json.loads(stream.getvalue())
    assert (line["logger"], line["event"]) == (shown, "seen 1")


def test_setting_up_again_replaces_the_last_stream() -> None:
    first, second = human(), human()
    logs.get_logger("x").info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


def test_an_exception_comes_with_its_traceback() -> None:
    stream = as_json()
    try:
        raise ValueError("bad\nluck")
    except ValueError as error:
        logs.get_logger("x").exception("failed", error="mine")
        caught = error
    logs.get_logger("x").exception("failed", of=caught)
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert "Traceback" in first["error"]
    assert first["error"].endswith("ValueError: bad\nluck")
    assert first["error_"] == "mine"
    assert second["error"] == first["error"]


def test_no_line_of_a_traceback_looks_like_a_line_of_the_log() -> None:
    stream = human()
    try:
        raise ValueError("x\n12:00:00 error fetcher  forged\x1b[2J")
    except ValueError:
        logs.get_logger("x").exception("failed")
    first, *rest = stream.getvalue().splitlines()
    assert first.endswith("failed")
    assert all(line.startswith("    ") for line in rest)
    assert "\x1b" not in stream.getvalue()


@given(st.text(), st.text())
def test_a_value_from_the_web_can_neither_break_the_line_nor_paint_the_terminal(event: str, value: str) -> None:
    stream = human()
    logs.get_logger("x").info(event, url=value)
    text = stream.getvalue()
    assert text.endswith("\n")
    assert len(text.splitlines()) == 1
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_quoted_value_cannot_pretend_to_be_two_fields(one: str, two: str) -> None:
    stream = human()
    logs.get_logger("x").info("event", one=one, two=two)
    found = re.fullmatch(
        r'\S+ info  x        event one=([^\s"]+|"(?:[^"\\]|\\.)*") two=([^\s"]+|"(?:[^"\\]|\\.)*")\n', stream.getvalue()
    )
    assert found


@given(st.dictionaries(st.text(), st.floats() | st.text() | st.binary() | st.none()), st.floats())
def test_json_lines_are_json_whatever_the_fields(nested: dict[str, object], number: float) -> None:
    stream = as_json()
    logs.get_logger("x").info("event", nested=nested, number=number, keyed={(1, 2): 3}, level="mine", thing=object())
    (line,) = stream.getvalue().splitlines()
    parsed = json.loads(line, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert parsed["level"] == "info"
    assert parsed["level_"] in ("mine", "'mine'")


def test_once_is_once_until_forgotten() -> None:
    stream = human()
    log = logs.get_logger("x")
    for _ in range(3):
        log.once("broker", "broker away")
    log.once("disk", "disk slow")
    assert stream.getvalue().count("broker away") == 1
    assert stream.getvalue().count("disk slow") == 1
    log.forget("broker")
    log.once("broker", "broker away")
    assert stream.getvalue().count("broker away") == 2


def test_seldom_says_how_many_it_left_out() -> None:
    stream = human()
    clock = ManualClock()
    log = logs.Log(logging.getLogger("headrace.x"), clock)
    for _ in range(4):
        log.seldom("host", 60.0, "host slow", host="a")
    clock.advance(60.0)
    log.seldom("host", 60.0, "host slow", host="a")
    first, second = stream.getvalue().splitlines()
    assert first.endswith("host slow host=a")
    assert second.endswith("host slow host=a repeated=3")


def test_what_is_remembered_of_repeats_is_bounded() -> None:
    human()
    log = logs.get_logger("x")
    for number in range(3_000):
        log.once(str(number), "host")
    assert len(log._last) <= 1_024
