"""crawl.yaml → what it says of each setting, with the line it says it on.

The nodes are walked instead of the values: values have no line, and YAML would make `on` a truth, `1e3` a text and
`010` an eight before the setting's own type had a say.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

from headrace_runtime.config_fields import Given, fields, sections
from headrace_schemas.errors import UsageError

_MAX_BYTES = 1 << 20  # far beyond any settings file; a mistyped path to a dump should not fill the memory


class Said(NamedTuple):
    name: str
    """Dotted; not necessarily a setting there is."""
    given: Given
    source: str


def read_file(path: Path) -> list[Said]:
    """In the order of the file; a setting given twice is an error, since one of the two would be ignored unseen."""
    said = list(_settings(_root(path), "", path))
    lines: dict[str, str] = {}
    for name, _, source in said:
        if name in lines:
            raise UsageError(f"{name} is given twice ({lines[name]} and {source})")
        lines[name] = source
    return said


def _root(path: Path) -> yaml.Node | None:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    if len(content) > _MAX_BYTES:
        raise UsageError(f"cannot read {path}: more than {_MAX_BYTES} bytes")
    try:
        root: yaml.Node | None = yaml.compose(content, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}{_position(error)} is not valid YAML: {_problem(error)}") from None
    return root


def _position(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return f":{mark.line + 1}:{mark.column + 1}" if mark else ""


def _problem(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    said = getattr(error, "problem", None) or getattr(error, "context", None) or str(error)
    return " ".join(str(said).split())


def _settings(node: yaml.Node | None, prefix: str, path: Path, depth: int = 0) -> Iterator[Said]:
    if node is None or _is_null(node):
        return  # an empty file, or a section with all its settings commented out
    where = f"{path}:{node.start_mark.line + 1}"
    if not isinstance(node, yaml.MappingNode):
        raise UsageError(f"{prefix.rstrip('.') or 'the settings'} ({where}): expected `name: value` lines")
    for key, value in node.value:
        name = prefix + (key.value if isinstance(key, yaml.ScalarNode) else "?")
        source = f"{path}:{key.start_mark.line + 1}"
        is_known = name in fields()
        if not is_known and (name in sections() or isinstance(value, yaml.MappingNode)) and depth < 8:
            yield from _settings(value, name + ".", path, depth + 1)
        elif not (is_known and _is_null(value)):  # `contact:` with nothing behind it leaves the default
            yield Said(name, _given(name, value, source), source)


def _given(name: str, node: yaml.Node, source: str) -> Given:
    if isinstance(node, yaml.ScalarNode):
        return str(node.value)
    if isinstance(node, yaml.SequenceNode) and all(isinstance(item, yaml.ScalarNode) for item in node.value):
        return [str(item.value) for item in node.value]
    raise UsageError(f"{name} ({source}) holds more than one value or a list of them")


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"
