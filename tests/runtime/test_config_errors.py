"""Whatever is wrong with a configuration is one line that names the setting, its source and what is allowed."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_runtime import config
from headrace_schemas.errors import UsageError


def complaint(path: Path | None = None, environ: dict[str, str] | None = None, *flags: tuple[str, str]) -> str:
    with pytest.raises(UsageError) as caught:
        config.load(path, environ or {}, flags)
    line = str(caught.value)
    assert "\n" not in line
    return line


DELAY = "a number from 0 to 3600"
STREAMS = "embedded: or kafka://host:port[,host:port]"


@pytest.mark.parametrize(
    ("name", "text", "objection", "allowed"),
    [
        ("politeness.delay", "fast", "is not a number", DELAY),
        ("politeness.delay", "", "is not a number", DELAY),
        ("politeness.delay", "-1", "is out of range", DELAY),
        ("politeness.delay", "3601", "is out of range", DELAY),
        ("politeness.delay", "nan", "is not a finite number", DELAY),
        ("limits.rate", "inf", "is not a finite number", "a number, 0 or more"),
        ("fetch.total_timeout", "0", "is out of range", "a number, above 0"),
        ("limits.max_pages", "1.5", "is not a whole number", "a whole number, 0 or more"),
        ("limits.max_pages", "-2", "is out of range", "a whole number, 0 or more"),
        ("metrics.port", "70000", "is out of range", "a whole number from 0 to 65535"),
        ("scope.mode", "some", "is none of the choices", "host, domain or all"),
        ("metrics.enabled", "maybe", "is neither true nor false", "true or false"),
        ("fetch.agent", "a b", "is not of the right form", "a text that matches ^[A-Za-z_-]+$"),
        ("streams.url", "redis://h", "will not do", STREAMS),
        ("streams.url", "kafka://h", "will not do", STREAMS),
        ("streams.url", "kafka://h:99999", "will not do", STREAMS),
        ("metrics.host", "a b", "will not do", "an address or host name without port"),
    ],
)
def test_a_wrong_value_is_named_with_its_source_and_what_is_allowed(
    name: str, text: str, objection: str, allowed: str, tmp_path: Path
) -> None:
    line = f'{name}: "{text}" (from {{}}) {objection}; allowed: {allowed}'
    variable = config.variable_of(name)
    assert complaint(None, {variable: text}) == line.format(variable)
    assert complaint(None, {}, (name, text)) == line.format("the command line")
    path = tmp_path / "crawl.yaml"
    section, _, last = name.partition(".")
    path.write_text(f"# settings\n{section}:\n  {last}: {json.dumps(text)}\n")
    assert complaint(path) == line.format(f"{path}:3")


def test_a_range_of_addresses_says_what_was_probably_meant() -> None:
    assert complaint(None, {}, ("fetch.allow_private", "10.0.0.1/8")) == (
        'fetch.allow_private: ["10.0.0.1/8"] (from the command line) will not do; '
        "allowed: address ranges such as 10.0.0.0/8 or ::1/128; 10.0.0.1/8 lies in 10.0.0.0/8"
    )
    assert "10.0.0.0/8 or ::1/128" in complaint(None, {}, ("fetch.allow_private", "intranet"))


@pytest.mark.parametrize("text", ["http://a/", "http://a/,http://b/", '["a"', '{"a": 1}', "[1]", '[["a"]]', ""])
def test_a_list_in_the_environment_that_is_no_json_list_of_texts(text: str) -> None:
    line = complaint(None, {"HEADRACE_SEEDS": text})
    assert line.endswith('(from HEADRACE_SEEDS) is not a list; allowed: a list of texts as JSON, such as ["a", "b"]')


def test_a_list_for_a_single_value_and_a_single_value_for_a_list(tmp_path: Path) -> None:
    path = tmp_path / "crawl.yaml"
    path.write_text("politeness: {delay: [1, 2]}")
    assert complaint(path) == (
        f'politeness.delay: ["1", "2"] (from {path}:1) is not a number; allowed: a number from 0 to 3600'
    )
    path.write_text("seeds: http://a/")
    assert complaint(path) == f'seeds: "http://a/" (from {path}:1) is not a list; allowed: a list of texts'


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("politenes.delay", "politeness.delay"),
        ("politeness.dealy", "politeness.delay"),
        ("delay", "politeness.delay"),
        ("limits.maxpages", "limits.max_pages"),
        ("fetch.max_pages", "limits.max_pages"),
        ("stream.url", "streams.url"),
    ],
)
def test_an_unknown_setting_names_the_nearest_known_one(name: str, nearest: str, tmp_path: Path) -> None:
    assert complaint(None, {}, (name, "1")) == f"unknown setting {name} (the command line); did you mean {nearest}?"
    variable, known = config.variable_of(name), config.variable_of(nearest)
    assert complaint(None, {variable: "1"}) == f"unknown setting {name} ({variable}); did you mean {nearest} ({known})?"
    path = tmp_path / "crawl.yaml"
    section, _, last = name.rpartition(".")
    path.write_text(f"{section}: {{{last}: 1}}" if section else f"{last}: 1")
    assert complaint(path) == f"unknown setting {name} ({path}:1); did you mean {nearest}?"


def test_one_underscore_too_few_is_understood_as_a_slip() -> None:
    line = complaint(None, {"HEADRACE_POLITENESS_DELAY": "1"})
    assert line.endswith("did you mean politeness.delay (HEADRACE_POLITENESS__DELAY)?")


def test_a_section_is_no_setting() -> None:
    assert complaint(None, {"HEADRACE_POLITENESS": "{}"}) == (
        "politeness (HEADRACE_POLITENESS) is a section, not a setting; its settings: politeness.delay, politeness.key, "
        "politeness.hosts"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: b: c", "{}:1:5 is not valid YAML: mapping values are not allowed here"),
        ("contact: [1", "{}:1:12 is not valid YAML: expected ',' or ']', but got '<stream end>'"),
        ("- a\n- b\n", "the settings ({}:1): expected `name: value` lines"),
        ("politeness: 3\n", "politeness ({}:1): expected `name: value` lines"),
        ("contact: a\ncontact: b\n", "contact is given twice ({0}:1 and {0}:2)"),
        ("politeness.delay: 1\npoliteness:\n  delay: 2\n", "politeness.delay is given twice ({0}:1 and {0}:3)"),
        ("contact: {a: b}", "contact ({}:1) holds more than one value or a list of them"),
        ("seeds: [[a]]", "seeds ({}:1) holds more than one value or a list of them"),
        ("contact: a\n---\ncontact: b\n", "{}:2:1 is not valid YAML: but found another document"),
        ("contact: !!python/object:os.system x", None),
    ],
)
def test_a_file_that_is_no_settings_file(text: str, expected: str | None, tmp_path: Path) -> None:
    path = tmp_path / "crawl.yaml"
    path.write_text(text)
    if expected is None:
        assert config.load(path, {}).contact == "x"  # a text like any other: nothing is ever constructed
    else:
        assert complaint(path) == expected.format(path)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert complaint(tmp_path / "none.yaml") == f"cannot read {tmp_path / 'none.yaml'}: No such file or directory"
    assert complaint(tmp_path) == f"cannot read {tmp_path}: Is a directory"
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    assert str(binary) in complaint(binary)
    large = tmp_path / "large"
    large.write_bytes(b"#" * (1 << 21))
    assert "more than" in complaint(large)
    deep = tmp_path / "deep"
    deep.write_text("[" * 100_000)
    assert complaint(deep) == f"{deep} is not valid YAML: nested too deeply"


def test_a_password_is_in_no_error() -> None:
    line = complaint(None, {}, ("index.url", "mysql://me:s3cret@host/db"))
    assert "s3cret" not in line
    assert "mysql://me:***@host/db" in line


@given(st.text(max_size=40), st.text(max_size=40).filter(lambda text: text not in ("host", "domain", "all")))
def test_garbage_is_one_printable_line(name: str, value: str) -> None:
    assert complaint(None, {}, (name, value), ("scope.mode", value)).isprintable()


def test_yaml_aliases_do_not_multiply(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    path = tmp_path / "crawl.yaml"
    path.write_text("\n".join(lines))
    assert complaint(path).startswith("unknown setting a0") or "holds more" in complaint(path)
