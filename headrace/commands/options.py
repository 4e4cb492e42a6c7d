"""The options that every command shares, and the settings they lead to."""

import json
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from headrace_runtime import config, logs
from headrace_schemas.errors import UsageError
from headrace_schemas.settings import Settings

WorkspaceOption = Annotated[
    Path, typer.Option("--workspace", envvar="HEADRACE_WORKSPACE", metavar="DIR", help="Folder of the crawl.")
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", envvar="HEADRACE_CONFIG", metavar="F", help="Settings; default: ./crawl.yaml if there."),
]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="a.b=c", help="Any setting, by its name; may be repeated.")
]
DEFAULT_WORKSPACE = Path("workspace")
DEFAULT_CONFIG = Path("crawl.yaml")


def load(
    file: Path | None, sets: Iterable[str] | None = None, flags: Iterable[tuple[str, object]] = ()
) -> tuple[Settings, dict[str, str]]:
    """Defaults < file < environment < flags. → settings, and where each that is not a default came from."""
    if file is None and DEFAULT_CONFIG.is_file():
        file = DEFAULT_CONFIG
    overrides = [(name, _text(value)) for name, value in flags if value is not None and value != []]
    for item in sets or ():
        name, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"--set {item}: wants the form name=value, e.g. --set politeness.delay=2")
        overrides.append((name.strip(), value))
    return config.load_with_sources(file, os.environ, overrides)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def start_logs(settings: Settings, default: str, level: str | None = None) -> None:
    format = default if settings.log.format == "auto" else settings.log.format
    logs.setup("json" if format == "json" else "human", level or settings.log.level, sys.stderr)
