"""The `headrace` command on one workspace, as a user types it, in processes of their own."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_HEADRACE = str(Path(sys.executable).with_name("headrace"))
_SECONDS = 60.0


class Failed(Exception):
    """A command that must work did not: there is nothing to judge."""


class Crawl:
    """`settings` as the environment has them: HEADRACE_…"""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder, self.workspace = folder, folder / "ws"
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADRACE_")}
        self.environment = clean | {"HEADRACE_WORKSPACE": str(self.workspace)} | settings

    def command(self, *arguments: str) -> list[str]:
        return [_HEADRACE, *arguments]

    def run(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
        """→ what it printed."""
        try:
            done = subprocess.run(
                self.command(*arguments),
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Failed(f"headrace {arguments[0]} took longer than {_SECONDS:.0f} s") from None
        if done.returncode not in codes:
            raise Failed(f"headrace {' '.join(arguments)[:80]}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run("status", "--json"))
        return found

    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run("pages", "--format", "jsonl").splitlines()]

    def audit(self) -> dict[str, Any]:
        """`headrace frontier check`: embedded only, and with nothing running."""
        found: dict[str, Any] = json.loads(self.run("frontier", "check", "--json", codes=(0, 1)))
        return found


def common(delay: float) -> dict[str, str]:
    return {
        "HEADRACE_CONTACT": "torture@example.org",
        "HEADRACE_SCOPE__MODE": "all",
        "HEADRACE_FETCH__ALLOW_PRIVATE": '["127.0.0.0/8"]',
        "HEADRACE_POLITENESS__DELAY": str(delay),
        "HEADRACE_PARSER__WORKERS": "1",
    }
