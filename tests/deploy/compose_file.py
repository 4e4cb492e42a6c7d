"""docker-compose.yml as compose reads it: anchors merged, variables filled in; and its services as plain processes."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"
OURS = ("topics", "frontier", "fetcher", "parser", "storer", "headrace")
"""Services that run our image."""
NEEDED = {"HEADRACE_CONTACT": "ops@example.org", "POSTGRES_PASSWORD": "s3$cret", "GRAFANA_PASSWORD": "other"}
"""What .env has to say."""
_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::(?P<how>[-?])(?P<word>[^}]*))?\}")
_ENTRYPOINT = re.compile(r'^ENTRYPOINT \["(\w+)"\]$', re.MULTILINE)

Service = dict[str, Any]


def services(environment: Mapping[str, str]) -> dict[str, Service]:
    """With what .env would say."""
    found: dict[str, Service] = filled(yaml.safe_load(COMPOSE.read_text()), environment)["services"]
    return found


def filled(node: Any, environment: Mapping[str, str]) -> Any:
    """${NAME}, ${NAME:-default} and ${NAME:?complaint}: all that our file uses."""
    if isinstance(node, dict):
        return {key: filled(value, environment) for key, value in node.items()}
    if isinstance(node, list):
        return [filled(value, environment) for value in node]
    return _VARIABLE.sub(lambda match: _value(match, environment), node) if isinstance(node, str) else node


def _value(match: "re.Match[str]", environment: Mapping[str, str]) -> str:
    given = environment.get(match["name"], "")
    assert given or match["how"] != "?", f"{match['name']}: {match['word']}"
    return given or match["word"] or ""


def command_of(service: Service) -> list[str]:
    """Behind the image's own entry point, which is the `headrace` command."""
    entrypoint = _ENTRYPOINT.search((ROOT / service["build"]["dockerfile"]).read_text())
    assert entrypoint is not None
    assert entrypoint[1] == "headrace"
    return list(service["command"])


def environment_of(service: Service, places: Mapping[str, str]) -> dict[str, str]:
    """Its environment, with what only a container has (hosts, mounts) put where it is here."""
    found = {}
    for name, value in service["environment"].items():
        text = str(value)
        for there, here in places.items():
            text = text.replace(there, here)
        found[name] = text
    return found


def mounted(service: Service) -> dict[str, str]:
    """Path in the container → volume, or file of this machine."""
    found = {}
    for volume in service.get("volumes", ()):
        if isinstance(volume, str):
            source, target, *_ = volume.split(":")
        else:
            source, target = volume["source"], volume["target"]
        found[target] = source
    return found
