"""docker-compose.yml: what compose's own parser says of it, and what an operator relies on."""

import ast
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace import __version__
from headrace_runtime import config
from headrace_runtime.config import NOT_SETTINGS
from tests.deploy.compose_file import COMPOSE, OURS, ROOT, Service, command_of, mounted, services
from tests.headrace_command import environment, headrace

CHECK = ROOT / "deploy/checks/compose"
NEEDED = {"HEADRACE_CONTACT": "ops@example.org", "POSTGRES_PASSWORD": "s3$cret", "GRAFANA_PASSWORD": "other"}
FLEET = ("frontier", "fetcher", "parser", "storer")
ALL = services(NEEDED)

Document = dict[str, Any]


# ---- the real parser ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def parsed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., "subprocess.CompletedProcess[str]"]:
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


Load = Callable[..., "subprocess.CompletedProcess[str]"]


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
    assert name == "kafka" or service["read_only"] is True
    assert "container_name" not in service
    for port in service.get("ports", ()):
        assert port.startswith("127.0.0.1:"), port


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


# ---- .env --------------------------------------------------------------------------------------


def _example() -> str:
    return (ROOT / ".env.example").read_text()


def test_the_example_has_every_variable_of_the_file_and_no_other() -> None:
    used = dict(re.findall(r"\$\{(\w+)(?::-([^}]*))?", COMPOSE.read_text()))
    offered = dict(re.findall(r"^#?([A-Z_]+)=(.*)$", _example(), re.MULTILINE))
    assert set(used) - {"HEADRACE_VERSION"} == set(offered)
    for name, value in offered.items():
        assert name == "CRAWL_CONFIG" or value == used[name], f"{name} is shown at its default"
    assert set(re.findall(r"^([A-Z_]+)=$", _example(), re.MULTILINE)) == set(NEEDED), "nobody's secret is everybody's"


class Operator:
    """`make` in a copy of what it reads, with a `docker` that only writes down what it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.said = folder, folder / "docker.log"
        (folder / "deploy").mkdir()
        shutil.copy(ROOT / "Makefile", folder)
        shutil.copy(ROOT / "deploy/preflight.sh", folder / "deploy")
        self.docker("exit 0")

    def docker(self, body: str) -> None:
        (self.folder / "bin").mkdir(exist_ok=True)
        script = self.folder / "bin/docker"
        script.write_text(f'#!/bin/sh\necho "$@" >>"{self.said}"\n{body}\n')
        script.chmod(0o755)

    def env(self, **values: str) -> None:
        lines = _example().splitlines()
        for name, value in values.items():
            lines[lines.index(f"{name}=")] = f"{name}={value}"
        (self.folder / ".env").write_text("\n".join(lines))

    def make(self, *args: str) -> "subprocess.CompletedProcess[str]":
        variables = environment()
        variables = {k: v for k, v in variables.items() if k not in NEEDED and not k.startswith("MAKE")}
        variables["PATH"] = f"{self.folder / 'bin'}:{variables['PATH']}"
        return subprocess.run(["make", *args], cwd=self.folder, env=variables, capture_output=True, text=True)

    def told(self) -> list[str]:
        lines = self.said.read_text().splitlines() if self.said.exists() else []
        return [line.removeprefix("compose ") for line in lines if line not in ("compose version", "info")]


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    return Operator(tmp_path)


def refused(done: "subprocess.CompletedProcess[str]", *words: str) -> None:
    [line, *rest] = [line for line in done.stderr.splitlines() if line]
    assert done.returncode != 0
    assert line.startswith("headrace: ")
    assert all(word in line for word in words), line
    assert all(line.startswith("make: ***") for line in rest), rest


TARGETS = (["up"], ["down"], ["logs"], ["scale", "FETCHERS=2"], ["seed", "URL=https://example.org/"], ["status"])


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target[0])
def test_without_docker_a_target_says_so_in_one_line(operator: Operator, target: list[str]) -> None:
    operator.docker("exit 1")
    refused(operator.make(*target), "Docker")
    operator.docker('[ "$1" = compose ]')
    refused(operator.make(*target), "no Docker engine answers")
    assert operator.told() == []


def test_up_wants_an_env_file_filled_in(operator: Operator) -> None:
    refused(operator.make("up"), "cp .env.example .env")
    filled_in: dict[str, str] = {}
    for name in NEEDED:
        operator.env(**filled_in)
        refused(operator.make("up"), name, "empty")
        operator.env(**filled_in, **{name: "'change-me'  # later"})
        refused(operator.make("up"), name, "example's")
        filled_in[name] = '"a b#c"'
    assert operator.told() == []
    operator.env(**filled_in)
    assert operator.make("up").returncode == 0
    assert operator.told()[:3] == [
        "build",
        "run --rm --no-deps headrace config check",  # a wrong setting is told here, not in a container's log
        "up --detach --remove-orphans",
    ]


def test_a_file_of_settings_that_is_not_there_is_named(operator: Operator) -> None:
    operator.env(**dict.fromkeys(NEEDED, "given"))
    file = operator.folder / ".env"
    file.write_text(file.read_text() + "\nCRAWL_CONFIG=./mine.yaml\n")
    refused(operator.make("up"), "CRAWL_CONFIG", "./mine.yaml")
    (operator.folder / "mine.yaml").touch()
    assert operator.make("up").returncode == 0


def test_scale_seed_and_status_say_to_compose_what_they_mean(operator: Operator) -> None:
    operator.env(**dict.fromkeys(NEEDED, "given"))
    run = "run --rm --no-deps --quiet-pull headrace"
    for asked, told in (
        (["scale", "FETCHERS=4"], "up --detach --no-deps --no-recreate --scale fetcher=4 fetcher"),
        (
            ["scale", "FETCHERS=4", "PARSERS=2"],
            "up --detach --no-deps --no-recreate --scale fetcher=4 --scale parser=2 fetcher parser",
        ),
        (["seed", "URL=https://example.org/?a=1&b=2"], f"{run} seed https://example.org/?a=1&b=2"),
        (["status", "ARGS=--json"], f"{run} status --json"),
        (["logs", "SERVICE=storer"], "logs --follow --tail 100 storer"),
        (["down"], "--profile tools down --remove-orphans"),
    ):
        done = operator.make(*asked)
        assert done.returncode == 0, done.stderr
        assert " ".join(operator.told()[-1].split()) == told


def test_scale_and_seed_without_a_number_or_a_url_say_what_they_want(operator: Operator) -> None:
    refused(operator.make("scale"), "make scale FETCHERS=4")
    refused(operator.make("scale", "FETCHERS=many"), "fetcher=many")
    refused(operator.make("seed"), "make seed URL=")
    assert operator.told() == []
