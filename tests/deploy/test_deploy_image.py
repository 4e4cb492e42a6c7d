"""deploy/Dockerfile: judged by hadolint, and by what it would build."""

import fnmatch
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.deploy.compose_file import NEEDED, ROOT, services
from tests.headrace_command import headrace

DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()
BIN = Path(sys.executable).parent


def copied() -> list[str]:
    """What the build stage takes from the checkout."""
    lines = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
    return [source for line in lines for source in line.split()[:-1]]


def instruction(name: str) -> str:
    """Its last one: the image's own."""
    found: list[str] = re.findall(rf"^{name} (.+)$", DOCKERFILE, re.MULTILINE)
    return found[-1]


def test_hadolint_has_nothing_to_say() -> None:
    done = subprocess.run([BIN / "hadolint", "--no-color", ROOT / "deploy/Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_dockerfile_that_is_wrong_would_be_noticed(tmp_path: Path) -> None:
    (bad := tmp_path / "Dockerfile").write_text("FROM python\nRUN cd /tmp && pip install x\n")
    done = subprocess.run([BIN / "hadolint", "--no-color", bad], capture_output=True, text=True)
    assert done.returncode != 0


def test_it_is_pinned_multi_stage_and_nobody_in_it_is_root() -> None:
    assert re.search(r"^ARG PYTHON=3\.\d+\.\d+-slim-\w+$", DOCKERFILE, re.MULTILINE)
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["python:${PYTHON}"] * 2
    user = instruction("USER")
    assert user == services(NEEDED)["fetcher"]["user"]
    assert int(user.partition(":")[0]) > 0
    assert instruction("EXPOSE") == services(NEEDED)["fetcher"]["environment"]["HEADRACE_METRICS__PORT"]


def test_the_image_started_with_no_configuration_says_so_in_one_line(tmp_path: Path) -> None:
    [command] = re.findall(r'"(\w+)"', instruction("CMD"))
    done = headrace(command, cwd=tmp_path)
    assert done.returncode == 2
    [line] = done.stderr.splitlines()
    assert "headrace run frontier|fetcher|parser|storer" in line


@pytest.mark.slow
def test_what_is_copied_makes_the_same_wheel_as_the_checkout(tmp_path: Path) -> None:
    for source in copied():
        target = tmp_path / "context" / Path(source).name  # as COPY puts it below the work directory
        target.parent.mkdir(exist_ok=True)
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, target)
    from_context, from_checkout = (_wheel(place, tmp_path) for place in (tmp_path / "context", ROOT))
    assert from_context == from_checkout
    assert "headrace/cli.py" in from_context


def _wheel(place: Path, folder: Path) -> set[str]:
    out = folder / f"dist-{place.name}"
    command: list[str | Path] = [
        BIN / "uv",
        "build",
        "--quiet",
        "--wheel",
        "--no-build-isolation",
        "--python",
        sys.executable,
    ]
    done = subprocess.run([*command, "-o", out, place], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    [wheel] = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_context_is_what_is_copied_and_nothing_else() -> None:
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    assert {line[1:] for line in lines if line.startswith("!")} == set(copied())
    hidden = [line for line in lines[1:] if not line.startswith("!")]
    assert any(fnmatch.fnmatch("headrace/__pycache__", line) for line in hidden)
