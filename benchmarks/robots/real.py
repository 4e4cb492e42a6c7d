"""Real files: those that Protego's source distribution carries, fetched by name when asked for and kept in a folder."""

import json
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

AGENTS = ("headrace", "Googlebot")
URLS = 20  # of a file, for each agent


class Question(NamedTuple):
    file: Path
    agent: str
    urls: list[str]


def files(folder: Path, most: int) -> list[Path]:
    """The first so many, by name."""
    if not folder.exists():
        _download(folder)
    return sorted(path for path in folder.iterdir() if path.is_file())[:most]


def _download(folder: Path) -> None:
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    build = ["--no-binary", "protego", "--no-build-isolation", "--dest", str(folder.parent)]
    subprocess.run([*download, *build, f"protego=={version('protego')}"], check=True)
    archive = next(folder.parent.glob("protego-*.tar.gz"))
    part = folder.with_name(folder.name + ".part")
    part.mkdir(exist_ok=True)
    with tarfile.open(archive) as packed:
        for member in packed:
            source = packed.extractfile(member) if "/test_data/" in member.name and member.isfile() else None
            if source is not None:
                (part / Path(member.name).name).write_bytes(source.read())
    part.rename(folder)


def questions(found: list[Path]) -> list[Question]:
    return [Question(file, agent, urls) for file in found if (urls := near(file.read_bytes())) for agent in AGENTS]


def near(text: bytes) -> list[str]:
    """URLs that the rules of a file are about, or just not."""
    paths: dict[str, None] = {}
    for line in text.decode("utf-8", "replace").splitlines():
        field, colon, value = line.partition("#")[0].partition(":")
        path = value.strip()
        if colon and field.strip().lower() in ("allow", "disallow") and path.startswith("/") and path.isascii():
            plain = path.replace("*", "x").rstrip("$")
            if plain.isprintable() and " " not in plain:
                paths |= dict.fromkeys((plain, plain + "z", plain.rstrip("/")))
    chosen = list(paths)
    step = max(1, len(chosen) // URLS)
    return [f"http://site.example{path or '/'}" for path in chosen[::step][:URLS]]


def truth(peers: Path, asked: list[Question]) -> list[list[bool] | None]:
    lines = "".join(json.dumps([str(one.file), one.agent, one.urls]) + "\n" for one in asked)
    script = str(Path(__file__).with_name("truth_peer.py"))
    done = subprocess.run([str(peers), script], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]
