"""The wheel, in an empty environment, does what the checkout does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.web.running import RunningWeb
from benchmarks.web.spec import WebSpec

ROOT = Path(__file__).parents[2]
FOREIGN = {"services", "schemas", "runtime", "tests", "benchmarks", "deploy", "docs"}


@pytest.mark.slow
def test_the_wheel_crawls_from_an_empty_environment(tmp_path: Path) -> None:
    uv = str(Path(sys.executable).with_name("uv"))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HEADRACE_", "PYTHONPATH", "VIRTUAL_ENV"))}

    def run(*command: str, timeout: float = 300) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=timeout, check=False
        )
        assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
        return done.stdout

    run(uv, "build", "--wheel", "--no-build-isolation", "--python", sys.executable, "-o", str(tmp_path), str(ROOT))
    (wheel,) = tmp_path.glob("*.whl")
    run(sys.executable, "-m", "venv", "empty")
    python = tmp_path / "empty/bin/python"
    # The locked versions of its dependencies, without the development ones: only what the wheel itself asks for.
    run(str(python), "-m", "pip", "install", "-q", "-c", str(_constraints(tmp_path)), str(wheel))
    installed = {path.name for path in (tmp_path / "empty/lib").glob("python*/site-packages/*")}
    assert not installed & FOREIGN
    with RunningWeb(WebSpec(hosts=3, pages=8)) as web:
        command = ["crawl", *web.seeds(), "--allow-private", "127.0.0.0/8", "--scope", "all", "--delay", "0"]
        run(str(tmp_path / "empty/bin/headrace"), *command, "--contact", "tests@example.org")
        rows = run(str(tmp_path / "empty/bin/headrace"), "pages", "--format", "jsonl").splitlines()
        assert len(rows) == len(web.expected())


def _constraints(folder: Path) -> Path:
    """The lock file without its hashes, which pip would then want for the wheel too."""
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    names = [line.rstrip("\\").strip() for line in lines if line and line[0] not in " #"]
    file = folder / "constraints.txt"
    file.write_text("\n".join(names))
    return file
