"""Compose's own parser, built once."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deploy.compose_file import ROOT

CHECK = ROOT / "deploy/checks/compose"
Load = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Load:
    """Compose's own parser and schema over a file: JSON of what it understands, or its complaint."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go on this machine: compose's own parser is a Go module")
    program = tmp_path_factory.mktemp("compose") / "compose"
    built = subprocess.run([go, "build", "-o", str(program), "."], cwd=CHECK, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr

    def load(file: Path, *variables: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([str(program), str(file), *variables], env={}, capture_output=True, text=True)

    return load
