"""Settings from four sources: defaults < YAML file < environment < flags and `--set`. All that is wrong is one line."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from headrace_runtime.config_checks import complaint
from headrace_runtime.config_fields import Field, Given, Wrong, fields, flatten, nearest, sections
from headrace_runtime.config_file import Said, read_file
from headrace_runtime.config_text import Documented, documented, masked, show, template, unspoken
from headrace_schemas.errors import UsageError
from headrace_schemas.settings import Settings

__all__ = ["Documented", "documented", "flatten", "load", "load_with_sources", "show", "template"]

PREFIX = "HEADRACE_"
NOT_SETTINGS = ("HEADRACE_WORKSPACE", "HEADRACE_CONFIG")
"""They say where the settings and the crawl are, so they cannot be settings themselves."""
TESTS = "HEADRACE_TEST_"
COMMAND_LINE = "the command line"


def load(path: Path | None, environ: Mapping[str, str], overrides: Sequence[tuple[str, str]] = ()) -> Settings:
    return load_with_sources(path, environ, overrides)[0]


def load_with_sources(
    path: Path | None, environ: Mapping[str, str], overrides: Sequence[tuple[str, str]] = ()
) -> tuple[Settings, dict[str, str]]:
    """Also says where each setting that is not at its default came from: file and line, variable, or command line."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for said in _said(path, environ, overrides):
        values[said.name] = _value(said)
        sources[said.name] = said.source
    return _assemble(values), sources


def variable_of(name: str) -> str:
    return PREFIX + name.upper().replace(".", "__")


def _said(path: Path | None, environ: Mapping[str, str], overrides: Sequence[tuple[str, str]]) -> Iterator[Said]:
    """Weakest source first. Every one is checked, even what a stronger one replaces: the error would surface later."""
    if path is not None:
        yield from read_file(path)
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable in NOT_SETTINGS or variable.startswith(TESTS):
            continue
        name = variable.removeprefix(PREFIX).lower().replace("__", ".")
        yield Said(name, environ[variable], variable)
    for name, text in overrides:
        yield Said(name.strip(), _flag(name.strip(), text), COMMAND_LINE)


def _flag(name: str, text: str) -> Given:
    """A list on the command line is JSON or one entry. Commas are not split: URLs have them."""
    field = fields().get(name)
    is_one_entry = field is not None and field.is_list and not text.lstrip().startswith("[")
    return [text] if is_one_entry else text


def _value(said: Said) -> Any:
    field = fields().get(said.name)
    if field is None:
        raise UsageError(_unknown(said))
    try:
        value = field.read(said.given)
    except Wrong as wrong:
        raise UsageError(_wrong(field, said, str(wrong), field.allowed)) from None
    if (allowed := complaint(said.name, value)) is not None:
        raise UsageError(_wrong(field, said, "will not do", allowed))
    return value


def _unknown(said: Said) -> str:
    if said.name in sections():
        known = ", ".join(name for name in fields() if name.startswith(said.name + "."))
        return f"{said.name} ({said.source}) is a section, not a setting; its settings: {known}"
    best = nearest(said.name)
    if said.source.startswith(PREFIX):
        best = f"{best} ({variable_of(best)})"
    return f"unknown setting {_one_line(said.name)} ({said.source}); did you mean {best}?"


def _wrong(field: Field, said: Said, objection: str, allowed: str) -> str:
    if field.is_list and said.source.startswith(PREFIX):
        allowed += """ as JSON, such as ["a", "b"]"""
    value = masked(json.dumps(unspoken(said.given), ensure_ascii=False))
    shown = value if len(value) <= 120 else value[:117] + "…"
    return f"{field.name}: {_one_line(shown)} (from {said.source}) {objection}; allowed: {allowed}"


def _one_line(text: str) -> str:
    return "".join(char if char.isprintable() else "�" for char in text)


def _assemble(values: Mapping[str, Any]) -> Settings:
    nested: dict[str, Any] = {}
    for name, value in values.items():
        *path, last = name.split(".")
        level = nested
        for part in path:
            level = level.setdefault(part, {})
        level[last] = value
    return msgspec.convert(nested, Settings)
