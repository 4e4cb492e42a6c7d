"""`make up` and its like: what they say to Docker, and what they refuse before Docker is asked."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.deploy.compose_file import COMPOSE, NEEDED, ROOT
from tests.deploy.conftest import Load
from tests.headrace_command import environment


class Operator:
    """`make` in a copy of what it reads, with a `docker` and a `headrace` that only write down what they are told."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.said = folder, folder / "said.log"
        (folder / "deploy").mkdir()
        shutil.copy(ROOT / "Makefile", folder)
        shutil.copy(ROOT / "deploy/preflight.sh", folder / "deploy")
        for installed in ("requirements.lock", "pyproject.toml", ".venv/.installed"):
            (folder / installed).parent.mkdir(exist_ok=True)
            (folder / installed).touch()
        self.docker("exit 0")
        self._script(".venv/bin/headrace", "exit 0")

    def docker(self, body: str) -> None:
        self._script("bin/docker", body)

    def _script(self, name: str, body: str) -> None:
        script = self.folder / name
        script.parent.mkdir(exist_ok=True)
        script.write_text(f'#!/bin/sh\n{{ printf \'%s\\037\' "$@"; echo; }} >>"{self.said}"\n{body}\n')
        script.chmod(0o755)

    def env(self, **values: str) -> None:
        lines = (ROOT / ".env.example").read_text().splitlines()
        for name, value in values.items():
            lines[lines.index(f"{name}=")] = f"{name}={value}"
        (self.folder / ".env").write_text("\n".join(lines))

    def line(self, name: str, form: str) -> None:
        """Instead of what is there of it; `NAME` in it is the name."""
        file = self.folder / ".env"
        others = [line for line in file.read_text().splitlines() if name not in line]
        file.write_text("\n".join([form.replace("NAME", name), *others]), newline="")

    def make(self, *args: str) -> "subprocess.CompletedProcess[str]":
        variables = environment()
        variables = {k: v for k, v in variables.items() if k not in NEEDED and not k.startswith("MAKE")}
        variables["PATH"] = f"{self.folder / 'bin'}:{variables['PATH']}"
        return subprocess.run(["make", *args], cwd=self.folder, env=variables, capture_output=True, text=True)

    def words(self) -> list[list[str]]:
        """Of each command, but for those that only ask whether Docker is there."""
        lines = self.said.read_text().splitlines() if self.said.exists() else []
        commands = [line.split("\037")[:-1] for line in lines]
        return [words for words in commands if words not in (["compose", "version"], ["info"])]

    def told(self) -> list[str]:
        return [" ".join(words).removeprefix("compose ") for words in self.words()]


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    return Operator(tmp_path)


def refused(done: "subprocess.CompletedProcess[str]", *words: str) -> None:
    [line, *rest] = [line for line in done.stderr.splitlines() if line]
    assert done.returncode == 2
    assert line.startswith("headrace: ")
    assert all(word in line for word in words), line
    assert all(line.startswith("make: ***") for line in rest), rest


FORMS = {
    "NAME=own": "own",
    "  NAME = own  ": "own",
    "export NAME=own": "own",
    "export   NAME='own'": "own",
    "NAME: own": "own",
    'NAME: "own words"  # later': "own words",
    "NAME=own#words # later": "own#words",
    "NAME='own # words' # later": "own # words",
    "NAME='it\\'s own'": "it's own",
    "NAME=\r\nNAME=own\r": "own",
    "\ufeffNAME=own": "own",
    "NAME=old\nNAME=own": "own",
    "# NAME=old\nNAME=(own); & words": "(own); & words",
}
"""Lines of .env → what compose reads."""
NOTHING = ("NAME=", "NAME= # x", "NAME=''", 'NAME: ""', "export NAME=\r", "NAME=a\nNAME=", "#NAME=a", "MY_NAME=a")
"""What compose reads as no value, or as its own comment."""
EXAMPLES = ("changeme", "Change-Me", "CHANGE_ME", "'change me'", "'change-me'  # later", "Password", "SECRET\r")
EXAMPLE_CONTACTS = (
    "you@example.org",
    "You@Example.ORG  # later",
    "https://example.com/about-the-bot",
    "https://www.example.net",
    "'Bob, bob@example.org'",
    "ops@crawler.test",
)
CONTACTS = ("ops@examples.org", "https://crawl.example.org.uk/?a=b&c", "bob@my-example.org", "https://site.org/example")


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


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_line_that_compose_reads_is_read(operator: Operator, form: str) -> None:
    for name in NEEDED:
        operator.env(**dict.fromkeys(NEEDED, "given"))
        operator.line(name, form)
        done = operator.make("up")
        assert done.returncode == 0, (name, done.stderr)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_composes_own_parser_reads_these_forms(parsed: Load, tmp_path: Path, form: str) -> None:
    (file := tmp_path / "given.env").write_text(form.replace("NAME", "GRAFANA_PASSWORD"), newline="")
    others = (f"{name}={value}" for name, value in NEEDED.items() if name != "GRAFANA_PASSWORD")
    done = parsed(COMPOSE, str(file), *others)
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout)["services"]["grafana"]["environment"]["GF_SECURITY_ADMIN_PASSWORD"]
    assert read == FORMS[form]


@pytest.mark.parametrize("form", NOTHING)
def test_a_line_without_a_value_is_refused(operator: Operator, form: str) -> None:
    operator.env(**dict.fromkeys(NEEDED, "given"))
    operator.line("POSTGRES_PASSWORD", form)
    refused(operator.make("up"), "POSTGRES_PASSWORD", "empty")


@pytest.mark.parametrize("value", EXAMPLES)
def test_an_examples_word_is_refused_however_it_is_written(operator: Operator, value: str) -> None:
    for name in NEEDED:
        operator.env(**dict.fromkeys(NEEDED, "given"))
        operator.line(name, f"NAME={value}")
        refused(operator.make("up"), name, "example's")


def test_a_contact_that_reaches_nobody_is_refused(operator: Operator) -> None:
    operator.env(**dict.fromkeys(NEEDED, "given"))
    for value in EXAMPLE_CONTACTS:
        operator.line("HEADRACE_CONTACT", f"NAME={value}")
        refused(operator.make("up"), "HEADRACE_CONTACT", "example's")
    for value in CONTACTS:
        operator.line("HEADRACE_CONTACT", f"NAME={value}")
        assert operator.make("up").returncode == 0, value


def test_a_file_of_settings_that_is_not_there_is_named(operator: Operator) -> None:
    operator.env(**dict.fromkeys(NEEDED, "given"))
    file = operator.folder / ".env"
    file.write_text(file.read_text() + "\nCRAWL_CONFIG=./mine.yaml\n")
    refused(operator.make("up"), "CRAWL_CONFIG", "./mine.yaml")
    (operator.folder / "mine.yaml").touch()
    assert operator.make("up").returncode == 0
    operator.line("CRAWL_CONFIG", "export CRAWL_CONFIG='my own.yaml'")
    refused(operator.make("up"), "CRAWL_CONFIG", "my own.yaml")
    (operator.folder / "my own.yaml").touch()
    assert operator.make("up").returncode == 0
    operator.line("CRAWL_CONFIG", "NAME=~/mine.yaml")
    refused(operator.make("up", f"HOME={operator.folder / 'deploy'}"), "CRAWL_CONFIG", "deploy/mine.yaml")
    assert operator.make("up", f"HOME={operator.folder}").returncode == 0


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


AWKWARD = 'https://example.org/it\'s?a=$b&c=$(d);(e)*"f"'
CONTACT = """Bob & Ann's (bots); "me" $HOME, *"""


@pytest.mark.parametrize("command", ["crawl", "seed"])
def test_a_url_is_handed_on_as_it_was_typed(operator: Operator, command: str) -> None:
    operator.env(**dict.fromkeys(NEEDED, "given"))
    done = operator.make(command, f"URL={AWKWARD}  https://example.net/")
    assert done.returncode == 0, done.stderr
    assert operator.words()[-1][-3:] == [command, AWKWARD, "https://example.net/"]


def test_a_contact_is_handed_on_as_it_was_typed(operator: Operator) -> None:
    done = operator.make("crawl", f"URL={AWKWARD}", f"CONTACT={CONTACT}")
    assert done.returncode == 0, done.stderr
    assert operator.words() == [["crawl", AWKWARD, "--contact", CONTACT]]


def test_scale_and_seed_without_a_number_or_a_url_say_what_they_want(operator: Operator) -> None:
    refused(operator.make("scale"), "make scale FETCHERS=4")
    refused(operator.make("scale", "FETCHERS=many"), "fetcher=many")
    refused(operator.make("seed"), "make seed URL=")
    refused(operator.make("seed", "URL= "), "make seed URL=")
    assert operator.told() == []
