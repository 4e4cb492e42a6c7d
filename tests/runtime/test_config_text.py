"""The settings as people read them."""

import re
from pathlib import Path

import msgspec
import yaml

from headrace_runtime import config
from headrace_schemas.settings import IndexSettings, Settings


def uncommented(text: str) -> str:
    return re.sub(r"^( *)#(?=[a-z_0-9]+:)", r"\1", text, flags=re.MULTILINE)


def test_the_template_as_written_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "crawl.yaml"
    path.write_text(config.template())
    assert config.load_with_sources(path, {}) == (Settings(), {})


def test_the_template_with_every_line_in_force_is_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "crawl.yaml"
    path.write_text(uncommented(config.template()))
    settings, sources = config.load_with_sources(path, {})
    assert settings == Settings()
    assert set(sources) == {name for name, _ in config.flatten(settings)}


def test_any_one_line_of_the_template_can_be_taken_alone(tmp_path: Path) -> None:
    path = tmp_path / "crawl.yaml"
    lines = config.template().splitlines()
    for number, line in enumerate(lines):
        if uncommented(line) != line:
            path.write_text("\n".join([*lines[:number], uncommented(line), *lines[number + 1 :]]))
            settings, sources = config.load_with_sources(path, {})
            assert settings == Settings()
            assert list(sources.values()) == [f"{path}:{number + 1}"]


def test_every_setting_is_documented_from_its_docstring() -> None:
    known = {row.name: row for row in config.documented()}
    assert known["politeness.delay"] == config.Documented(
        "politeness.delay",
        1.0,
        "Seconds between the starts of two requests to one host; robots.txt may ask for more.",
        "a number from 0 to 3600",
    )
    assert known["canonical.drop_params"].help.startswith("Names (a trailing *")  # of a struct in another module
    assert "  " not in known["streams.sync"].help
    assert list(known) == [name for name, _ in config.flatten(Settings())]


def test_show_is_yaml_of_what_is_in_force_with_its_sources(tmp_path: Path) -> None:
    path = tmp_path / "crawl.yaml"
    path.write_text("contact: 'a: b # c'\n")
    settings, sources = config.load_with_sources(path, {"HEADRACE_LIMITS__MAX_PAGES": "5"})
    text = config.show(settings, sources)
    assert f"contact: 'a: b # c'  # {path}:1\n" in text
    assert "  max_pages: 5  # HEADRACE_LIMITS__MAX_PAGES\n" in text
    assert msgspec.convert(yaml.safe_load(text), Settings) == settings
    assert msgspec.convert(yaml.safe_load(config.show(settings)), Settings) == settings


def test_show_masks_passwords() -> None:
    for url in (
        "postgresql://me:s3cret@host/db",
        "postgresql://me:s3@cret@host/db",
        "postgresql://host/db?user=me&password=s3cret&sslmode=require",
        "postgresql://me:s3 cret@host/db",
        'postgresql://me:s3"cret@host/db',
        "postgresql://me@host/db?sslpassword=s3cret",
    ):
        text = config.show(Settings(index=IndexSettings(url=url)))
        assert "cret" not in text
        assert "***" in text
        assert "host/db" in text
