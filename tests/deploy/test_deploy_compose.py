"""docker-compose.yml: what compose's own parser says of it, and what an operator relies on."""

import ast
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace import __version__
from headrace_runtime import config
from headrace_runtime.config import NOT_SETTINGS
from tests.deploy.compose_file import COMPOSE, NEEDED, OURS, ROOT, Service, command_of, mounted, services
from tests.deploy.conftest import Load
from tests.headrace_command import headrace

FLEET = ("frontier", "fetcher", "parser", "storer")
ALL = services(NEEDED)
OPERATIONS = (ROOT / "docs/operations.md").read_text()

Document = dict[str, Any]


# ---- the real parser ---------------------------------------------------------------------------


@pytest.mark.slow
def test_composes_own_parser_takes_it_and_reads_what_we_read(parsed: Load) -> None:
    done = parsed(COMPOSE, *(f"{name}={value}" for name, value in NEEDED.items()))
    assert done.returncode == 0, done.stderr
    theirs: dict[str, Service] = json.loads(done.stdout)["services"]
    assert set(theirs) == set(ALL)
    for name, service in ALL.items():
        ours = {key: str(value) for key, value in service.get("environment", {}).items()}
        assert theirs[name].get("environment", {}) == ours
        if name in OURS:
            assert theirs[name]["command"] == command_of(service)


@pytest.mark.slow
def test_what_must_be_set_is_named_when_it_is_not(parsed: Load) -> None:
    for missing in NEEDED:
        done = parsed(COMPOSE, *(f"{name}={value}" for name, value in NEEDED.items() if name != missing))
        assert done.returncode == 1
        assert f"required variable {missing} is missing a value: set it in .env" in done.stderr


def _misspelt(document: Document) -> None:
    document["services"]["fetcher"]["comand"] = ["run", "fetcher"]


def _dangling(document: Document) -> None:
    document["services"]["storer"]["depends_on"] = {"postgre": {"condition": "service_healthy"}}


def _unnamed_volume(document: Document) -> None:
    del document["volumes"]["workspace"]


def _wrong_kind(document: Document) -> None:
    document["services"]["frontier"]["deploy"] = {"replicas": "some"}


@pytest.mark.slow
@pytest.mark.parametrize("broken", [_misspelt, _dangling, _unnamed_volume, _wrong_kind])
def test_a_broken_file_is_refused(parsed: Load, tmp_path: Path, broken: Callable[[Document], None]) -> None:
    document = yaml.safe_load(COMPOSE.read_text())
    broken(document)
    (file := tmp_path / "docker-compose.yml").write_text(yaml.safe_dump(document))
    done = parsed(file, *(f"{name}={value}" for name, value in NEEDED.items()))
    assert done.returncode == 1, done.stdout
    assert done.stderr.strip()


# ---- what an operator relies on ----------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_a_service_is_pinned_confined_and_bounded(name: str) -> None:
    service = ALL[name]
    image, _, tag = service["image"].rpartition(":")
    assert image, service["image"]
    assert re.match(r"v?\d+\.\d+\.\d+|\d+\.\d+-", tag), f"{service['image']} is not pinned"
    assert service["user"].partition(":")[0] not in ("", "0", "root")
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert re.fullmatch(r"\d+[mg]", service["mem_limit"])
    assert service["pids_limit"] > 0
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}, "a crash loop must not fill the disk"
    assert service["read_only"] is True
    for folder in service.get("tmpfs", ()):
        assert re.search(r":size=\d+m,", folder), f"{folder}: memory without a bound"
    assert "container_name" not in service
    for port in service.get("ports", ()):
        assert port.startswith("127.0.0.1:"), port


def test_the_memory_that_the_docs_ask_for_is_what_the_limits_add_up_to() -> None:
    units = {"g": 1, "m": 1024}
    given = {name: re.fullmatch(r"(\d+)([mg])", service["mem_limit"]) for name, service in ALL.items()}
    limits = {name: int(limit[1]) / units[limit[2]] for name, limit in given.items() if limit}
    command = limits.pop("headrace")
    del limits["topics"]  # over before the others begin
    wording = r"and (\d+) GB of memory: .* add up to ([\d.]+) GB, ([\d.]+) GB while a command runs"
    said = re.search(wording, " ".join(OPERATIONS.split()))
    assert said is not None
    machine, running, most = map(float, said.groups())
    assert (running, most) == (sum(limits.values()), sum(limits.values()) + command)
    assert machine > most


def test_the_docs_pin_the_images_that_are_used() -> None:
    [asked] = re.findall(r"RepoDigests 0}}' (.+)$", OPERATIONS, re.MULTILINE)
    assert asked.split() == [ALL[name]["image"] for name in ("kafka", "postgres")]
    [base] = re.findall(r"--build-arg PYTHON=(\S+?)@", OPERATIONS)
    assert f"ARG PYTHON={base}\n" in (ROOT / "deploy/Dockerfile").read_text()


@pytest.mark.parametrize("name", [name for name in ALL if name not in ("topics", "headrace")])
def test_what_runs_on_is_started_again_and_says_how_it_is(name: str) -> None:
    assert ALL[name]["restart"] == "unless-stopped"
    check = ALL[name]["healthcheck"]
    assert check["test"][0] in ("CMD", "CMD-SHELL")
    assert {"interval", "timeout", "retries", "start_period"} <= check.keys()


def test_what_runs_once_is_not_started_again() -> None:
    assert ALL["topics"]["restart"] == ALL["headrace"]["restart"] == "no"
    assert ALL["headrace"]["profiles"] == ["tools"], "`up` leaves it alone"


def test_the_start_goes_by_health() -> None:
    made = {"topics": {"condition": "service_completed_successfully"}}
    assert ALL["topics"]["depends_on"] == {"kafka": {"condition": "service_healthy"}}
    for name in ("frontier", "fetcher", "parser"):
        assert ALL[name]["depends_on"] == made
    assert ALL["storer"]["depends_on"] == made | {"postgres": {"condition": "service_healthy"}}


def test_services_that_are_scaled_share_no_port_and_have_time_to_stop() -> None:
    for name in FLEET:
        assert "ports" not in ALL[name]
        settings = config.load(None, ALL[name]["environment"])
        assert int(ALL[name]["stop_grace_period"].removesuffix("s")) > settings.shutdown_timeout + 5
        assert ALL[name]["deploy"]["replicas"] == "1"
    assert services(NEEDED | {"FETCHERS": "4"})["fetcher"]["deploy"]["replicas"] == "4"


def test_what_is_kept_lies_in_named_volumes() -> None:
    volumes = set(yaml.safe_load(COMPOSE.read_text())["volumes"])
    kept = {"kafka": "/var/lib/kafka/data", "postgres": "/var/lib/postgresql/data", "prometheus": "/prometheus"}
    for name, target in {**kept, **dict.fromkeys(OURS, "/workspace")}.items():
        assert mounted(ALL[name])[target] in volumes
    assert ALL["kafka"]["environment"]["KAFKA_LOG_DIRS"] == kept["kafka"]


def test_no_secret_stands_in_the_file_and_none_in_an_address() -> None:
    text = COMPOSE.read_text()
    for line in text.splitlines():
        if re.search(r"(?i)(password|secret|token)\w*:", line):
            assert re.search(r"\$\{\w+:\?", line), line
    assert not re.search(r"://[^/\s:]+:[^/\s]+@", text)
    assert [name for name in ALL if "PGPASSWORD" in ALL[name].get("environment", {})] == ["storer", "headrace"]


@pytest.mark.parametrize("name", OURS)
def test_every_setting_in_the_file_is_one_there_is(name: str) -> None:
    variables = {key: str(value) for key, value in ALL[name]["environment"].items()}
    settings = config.load(None, variables)  # an unknown or wrong one is an error
    assert settings.streams.url == "kafka://kafka:9092"
    assert settings.index.url.startswith("postgresql://")
    assert settings.contact == NEEDED["HEADRACE_CONTACT"]
    assert set(NOT_SETTINGS) <= variables.keys()
    assert {variables[key] for key in NOT_SETTINGS} == mounted(ALL[name]).keys()


def test_the_image_bears_the_version_it_is_built_from() -> None:
    assert {ALL[name]["image"] for name in OURS} == {f"headrace:{__version__}"}


def test_the_crawl_file_of_the_default_is_there_and_loads() -> None:
    file = Path(mounted(ALL["frontier"])["/etc/headrace/crawl.yaml"])
    config.load(ROOT / file, {})


@pytest.mark.parametrize("name", OURS)
def test_every_command_in_the_file_is_one_of_ours(name: str, tmp_path: Path) -> None:
    command = command_of(ALL[name])
    if command[0] == "run":
        from headrace.compose import BUILDERS

        assert command[1:] == [name]
        assert name in BUILDERS
        command = ["run"]
    done = headrace(*command, *([] if command == ["--help"] else ["--help"]), cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_the_health_check_is_a_program_of_the_image() -> None:
    for name in FLEET:
        program, flag, code = ALL[name]["healthcheck"]["test"][1:]
        assert (program, flag) == ("python", "-c")
        ast.parse(code)
        assert f":{ALL[name]['environment']['HEADRACE_METRICS__PORT']}/readyz" in code


def test_prometheus_and_grafana_read_what_the_repository_has() -> None:
    for name in ("prometheus", "grafana"):
        for source in mounted(ALL[name]).values():
            if source.startswith("./"):
                assert (ROOT / source).is_dir(), source
    [provider] = (ROOT / "deploy/grafana/provisioning/dashboards").iterdir()
    [folder] = [entry["options"]["path"] for entry in yaml.safe_load(provider.read_text())["providers"]]
    assert mounted(ALL["grafana"])[folder] == "./deploy/grafana/dashboards"
    [source_file] = (ROOT / "deploy/grafana/provisioning/datasources").iterdir()
    [source] = yaml.safe_load(source_file.read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    [target] = [word for word in ALL["prometheus"]["command"] if word.startswith("--config.file=")]
    assert (ROOT / "deploy/prometheus" / Path(target.partition("=")[2]).name).is_file()


def test_the_example_has_every_variable_of_the_file_and_no_other() -> None:
    example = (ROOT / ".env.example").read_text()
    used = dict(re.findall(r"\$\{(\w+)(?::-([^}]*))?", COMPOSE.read_text()))
    offered = dict(re.findall(r"^#?([A-Z_]+)=(.*)$", example, re.MULTILINE))
    assert set(used) - {"HEADRACE_VERSION"} == set(offered)
    for name, value in offered.items():
        assert name == "CRAWL_CONFIG" or value == used[name], f"{name} is shown at its default"
    assert set(re.findall(r"^([A-Z_]+)=$", example, re.MULTILINE)) == set(NEEDED), "nobody's secret is everybody's"
