"""The lock file pins everything by hash and names no registry."""

import re
from pathlib import Path

LOCK = (Path(__file__).parent.parent / "requirements.lock").read_text(encoding="utf-8")


def test_every_dependency_is_pinned_with_hashes() -> None:
    pins = re.split(r"\n(?=\S)", "\n".join(line for line in LOCK.splitlines() if not line.lstrip().startswith("#")))
    pins = [pin for pin in pins if pin.strip()]
    assert len(pins) > 30
    assert [pin for pin in pins if "==" not in pin or "--hash=sha256:" not in pin] == []


def test_no_registry_is_named() -> None:
    assert not re.search(r"https?://|--index|--find-links", LOCK)
