"""The lock files pin everything by hash and name no registry; those of the image say what the first one says."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
OF_THE_IMAGE = {
    name: (ROOT / "deploy" / name).read_text(encoding="utf-8") for name in ("requirements.lock", "build.lock")
}


def pins(lock: str) -> dict[str, str]:
    """Name → version, marker and hashes."""
    entries = re.split(r"\n(?=\S)", "\n".join(line for line in lock.splitlines() if not line.lstrip().startswith("#")))
    split = (entry.partition("==") for entry in entries if entry.strip())
    return {name: " ".join(rest.replace("\\", "").split()) for name, _, rest in split}


def test_every_dependency_is_pinned_with_hashes() -> None:
    pins = re.split(r"\n(?=\S)", "\n".join(line for line in LOCK.splitlines() if not line.lstrip().startswith("#")))
    pins = [pin for pin in pins if pin.strip()]
    assert len(pins) > 30
    assert [pin for pin in pins if "==" not in pin or "--hash=sha256:" not in pin] == []


def test_no_registry_is_named() -> None:
    for lock in (LOCK, *OF_THE_IMAGE.values()):
        assert not re.search(r"https?://|--index|--find-links", lock)


@pytest.mark.parametrize("name", OF_THE_IMAGE)
def test_the_image_has_what_was_tested(name: str) -> None:
    ours, all_of_them = pins(OF_THE_IMAGE[name]), pins(LOCK)
    differing = [package for package, pin in ours.items() if pin != all_of_them.get(package)]
    assert not differing, "run: make lock (or, without upgrades, its lines without --upgrade)"
    assert all("--hash=sha256:" in pin for pin in ours.values())


def test_the_image_has_every_dependency_and_no_tool_of_development() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[^A-Za-z0-9._-]", text)[0].lower() for text in requirements}

    wanted, tools = names(project["project"]["dependencies"]), names(project["dependency-groups"]["dev"])
    there = set(pins(OF_THE_IMAGE["requirements.lock"]))
    assert wanted <= there
    assert not there & tools
    assert "hatchling" in pins(OF_THE_IMAGE["build.lock"])
