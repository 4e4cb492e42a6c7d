"""Where a setting comes from, and which source wins."""

import json
from pathlib import Path

import pytest

from headrace_runtime import config
from headrace_runtime.config_fields import fields
from headrace_schemas.settings import Settings


@pytest.fixture
def crawl_yaml(tmp_path: Path) -> Path:
    path = tmp_path / "crawl.yaml"
    path.write_text("contact: file\npoliteness:\n  delay: 2\nlimits:\n  max_depth: 3\nscope:\n")
    return path


def test_without_any_source_all_is_at_its_default() -> None:
    assert config.load(None, {}) == Settings()


def test_each_source_beats_the_one_before_it(crawl_yaml: Path) -> None:
    environ = {"HEADRACE_POLITENESS__DELAY": "3", "HEADRACE_CONTACT": "environment"}
    settings, sources = config.load_with_sources(crawl_yaml, environ, [("contact", "flag")])
    assert (settings.limits.max_depth, settings.politeness.delay, settings.contact) == (3, 3.0, "flag")
    assert settings.retry == Settings().retry
    assert sources == {
        "limits.max_depth": f"{crawl_yaml}:5",
        "politeness.delay": "HEADRACE_POLITENESS__DELAY",
        "contact": "the command line",
    }


def test_the_last_of_two_flags_wins() -> None:
    assert config.load(None, {}, [("limits.max_pages", "1"), ("limits.max_pages", "2")]).limits.max_pages == 2


def test_variables_that_are_no_settings_are_left_alone() -> None:
    environ = {
        "HEADRACE_WORKSPACE": "w",
        "HEADRACE_CONFIG": "c",
        "HEADRACE_TEST_BROKER": "b",
        "HOME": "/",
        "headrace": "x",
    }
    assert config.load(None, environ) == Settings()


def test_a_list_in_the_environment_is_json() -> None:
    settings = config.load(None, {"HEADRACE_FETCH__ALLOW_PRIVATE": '["127.0.0.0/8", "::1/128"]'})
    assert settings.fetch.allow_private == ("127.0.0.0/8", "::1/128")


def test_a_list_on_the_command_line_is_json_or_one_entry_whatever_its_commas() -> None:
    assert config.load(None, {}, [("seeds", '["http://a/", "http://b/"]')]).seeds == ("http://a/", "http://b/")
    assert config.load(None, {}, [("seeds", "http://a/?x=1,2")]).seeds == ("http://a/?x=1,2",)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("contact: 123", "contact", "123"),
        ("contact: on", "contact", "on"),
        ("contact:", "contact", ""),
        ("politeness: {delay: 1e1}", "politeness.delay", 10.0),
        ("politeness.delay: 4", "politeness.delay", 4.0),
        ('limits: {max_pages: "7"}', "limits.max_pages", 7),
        ("limits: {max_pages: 1_000}", "limits.max_pages", 1000),
        ("metrics: {enabled: off}", "metrics.enabled", False),
        ("metrics: {enabled: Yes}", "metrics.enabled", True),
        ("seeds: [http://a/, http://b/]", "seeds", ("http://a/", "http://b/")),
        ("seeds:\n  - http://a/\n", "seeds", ("http://a/",)),
        ("seeds: []", "seeds", ()),
        ("", "contact", ""),
        ("# nothing\n", "contact", ""),
    ],
)
def test_a_file_means_what_its_setting_makes_of_the_text(tmp_path: Path, text: str, name: str, value: object) -> None:
    path = tmp_path / "crawl.yaml"
    path.write_text(text)
    assert dict(config.flatten(config.load(path, {})))[name] == value


def test_flatten_names_every_setting_once_in_the_order_of_the_structs() -> None:
    names = [name for name, _ in config.flatten(Settings())]
    assert names == list(fields())
    assert len(names) == len(set(names))
    assert names[0] == "contact"


@pytest.mark.parametrize("name", list(fields()))
def test_every_default_can_be_given_by_every_source(name: str, tmp_path: Path) -> None:
    """So each field is of a kind that can be read, and no default breaks its own rules."""
    default = fields()[name].default
    text = default if isinstance(default, str) else json.dumps(default)
    path = tmp_path / "crawl.yaml"
    path.write_text(f"{name}: {json.dumps(default)}\n")
    assert config.load(None, {config.variable_of(name): text}) == Settings()
    assert config.load(None, {}, [(name, text)]) == Settings()
    assert config.load(path, {}) == Settings()
