"""Whether a crawl of ours kept what it fetched: a row and a body for each page, by the hash that the model has."""

import csv
import io
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.web.expected import Expected

HEADRACE = str(Path(sys.executable).with_name("headrace"))
SETTINGS = {
    "HEADRACE_CONTACT": "bench@example.org",
    "HEADRACE_SCOPE__MODE": "all",
    "HEADRACE_FETCH__ALLOW_PRIVATE": '["127.0.0.0/8"]',
    "HEADRACE_POLITENESS__DELAY": "0",
}
"""All else is as it comes: 128 requests at once, one to a host, robots.txt obeyed, a group commit to disk."""


def environment(workspace: Path, **more: str) -> dict[str, str]:
    """Ours without any HEADRACE_ setting that a developer's shell may hold."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
    return clean | SETTINGS | {"HEADRACE_WORKSPACE": str(workspace)} | more


def problems(wanted: Iterable[Expected], workspace: Path, env: dict[str, str]) -> list[str]:
    done = subprocess.run(
        [HEADRACE, "pages", "--format", "csv"],
        cwd=workspace.parent,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return [f"its index cannot be read: {done.stderr.strip()[-300:]}"]
    csv.field_size_limit(1 << 30)
    kept = {row["url"]: row for row in csv.DictReader(io.StringIO(done.stdout))}
    gone = sum(not _kept(kept.get(page.url), page, workspace) for page in wanted)
    return [f"{gone:,} pages are not in its store as they were served"] if gone else []


def _kept(row: dict[str, str] | None, page: Expected, workspace: Path) -> bool:
    return row is not None and row["content_sha256"] == page.sha256 and (workspace / row["stored_path"]).is_file()
