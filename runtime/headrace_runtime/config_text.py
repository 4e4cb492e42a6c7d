"""The settings as text for people: what each means, a commented file of all of them, and those in force."""

import ast
import inspect
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from textwrap import wrap
from typing import Any, NamedTuple

import msgspec
import yaml

from headrace_runtime.config_fields import fields, flatten
from headrace_schemas.settings import Settings

_WIDTH = 110
_PASSWORD = re.compile(r"(://[^\s:/@\"]*:)[^\s\"]*(?=@)|(\b(?:ssl)?password=)[^\s&\"]*", re.IGNORECASE)
_URL_PASSWORD = re.compile(r"(://[^:/@]*:).*(?=@)", re.DOTALL)

_HEADING = """\
# Settings of a crawl. Each line that starts with #name shows a setting at its default: take the # away to change it.
# The environment (HEADRACE_POLITENESS__DELAY=2) is stronger than this file, flags and --set politeness.delay=2 are
# stronger than both. `headrace config show` says what is in force and where it came from.
"""


class Documented(NamedTuple):
    name: str
    default: Any
    help: str
    """One line; empty if the field has no docstring, or the sources are not installed."""
    allowed: str


def documented() -> list[Documented]:
    return [
        Documented(
            field.name, field.default, _docstrings(field.section).get(field.name.rpartition(".")[2], ""), field.allowed
        )
        for field in fields().values()
    ]


def template() -> str:
    """A crawl.yaml that changes nothing, until somebody takes away a #."""
    lines = [_HEADING]
    section = ""  # settings of no section come first: below one they would belong to it
    for name, default, help, allowed in sorted(documented(), key=lambda known: "." in known.name):
        path, _, last = name.rpartition(".")
        if path != section:
            lines.append(f"{path}:")
            section = path
        indent = "  " if path else ""
        lines += [f"{indent}# {line}" for line in wrap(_explained(help, allowed), _WIDTH - len(indent))]
        lines.append(f"{indent}#{last}: {_yaml(default)}")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


def show(settings: Settings, sources: Mapping[str, str] | None = None) -> str:
    """YAML of what is in force, each setting with where it came from; passwords are masked."""
    lines: list[str] = []
    section = ""
    for name, value in sorted(flatten(settings), key=lambda entry: "." in entry[0]):
        path, _, last = name.rpartition(".")
        if path != section:
            lines.append(f"{path}:")
            section = path
        line = f"{'  ' if path else ''}{last}: {masked(_yaml(unspoken(value)))}"
        source = (sources or {}).get(name)
        lines.append(f"{line}  # {source}" if source else line)
    return "\n".join(lines) + "\n"


def unspoken(value: Any) -> Any:
    """One URL by itself: what a password may hold is not guessed from the text around it."""
    return _URL_PASSWORD.sub(r"\1***", value) if isinstance(value, str) else value


def masked(text: str) -> str:
    return _PASSWORD.sub(lambda match: f"{match[1] or match[2]}***", text)


def _explained(help: str, allowed: str) -> str:
    return f"{help} Allowed: {allowed}." if help else f"Allowed: {allowed}."


def _yaml(value: Any) -> str:
    plain = list(value) if isinstance(value, tuple) else value
    text: str = yaml.safe_dump(plain, default_flow_style=True, allow_unicode=True, width=sys.maxsize)
    return text.removesuffix("\n").removesuffix("\n...")


@cache
def _docstrings(section: type[msgspec.Struct]) -> Mapping[str, str]:
    """Field → docstring. Python keeps none of attributes, so they are read from the source, which a wheel has too."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[section.__module__]))
    except OSError:
        return {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == section.__name__:
            return dict(_field_docstrings(node))
    return {}


def _field_docstrings(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, below in zip(node.body, node.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, " ".join(text.split())
            case _:
                pass
