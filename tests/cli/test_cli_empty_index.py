"""An index that nobody has written yet: a line that says what to do, whoever asks."""

import subprocess
from pathlib import Path

import pytest

from headrace_schemas.settings import IndexSettings, Settings
from headrace_storer.index import open_index
from tests.cli.test_cli_bad_input import one_line
from tests.headrace_command import headrace

COMMANDS = (("pages",), ("show", "https://example.org/"), ("politeness", "prove"), ("replay", "--from-store"))


def fleets(*command: str, cwd: Path, index: str = "") -> "subprocess.CompletedProcess[str]":
    """The command as told of a fleet; its broker is not asked. Without `index` the default: in the workspace."""
    where = {"HEADRACE_INDEX__URL": index} if index else {}
    return headrace(*command, cwd=cwd, timeout=60, stdin="", HEADRACE_STREAMS__URL="kafka://127.0.0.1:1", **where)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_fleets_index_that_no_storer_has_made_says_who_makes_it(
    tmp_path: Path, postgres_url: str, command: tuple[str, ...]
) -> None:
    done = fleets(*command, cwd=tmp_path, index=postgres_url)
    one_line(done, 2, "no pages yet in postgresql://", "headrace run storer", "index.url")
    assert list(tmp_path.iterdir()) == []


def test_the_same_of_a_fleet_that_keeps_it_in_the_workspace(tmp_path: Path) -> None:
    one_line(fleets("pages", cwd=tmp_path), 2, "no pages yet in workspace", "headrace run storer")


def test_an_index_without_a_row_says_so_beside_an_output_that_is_right(tmp_path: Path, postgres_url: str) -> None:
    open_index(Settings(index=IndexSettings(url=postgres_url)), tmp_path, create=True).close()
    done = fleets("pages", "--format", "jsonl", cwd=tmp_path, index=postgres_url)
    one_line(done, 0, "no pages yet", "headrace status")
    assert done.stdout == ""
    one_line(fleets("pages", "--status", "404", cwd=tmp_path, index=postgres_url), 0, "no page is like that")
    one_line(
        fleets("show", "https://example.org/", cwd=tmp_path, index=postgres_url),
        2,
        "headrace explain https://example.org/",
    )
