"""The command as this user can type it: one that was started as `.venv/bin/headrace` is not on their path."""

import shlex
import shutil
import sys
from pathlib import Path

_DEFAULT = Path("workspace")


def how_to(words: str, workspace: Path) -> str:
    where = "" if workspace == _DEFAULT else f" --workspace {shlex.quote(str(workspace))}"
    return f"{shlex.quote(_program())} {words}{where}"


def _program() -> str:
    started = Path(sys.argv[0])
    found = shutil.which("headrace")
    if started.name != "headrace" or (found and Path(found).resolve() == started.resolve()):
        return "headrace"
    try:
        return str(started.absolute().relative_to(Path.cwd()))
    except ValueError:
        return str(started)
