"""Bad input: one line that says what and where, exit code 2 (or 1), no traceback, nothing half-written."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.headrace_command import headrace

SEED = "http://127.0.0.1:1/"


def one_line(done: "subprocess.CompletedProcess[str]", code: int, *words: str) -> None:
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0], lines[0]


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        ("ftp://example.org/", ["ftp://example.org/", "scheme"]),
        ("example.org", ["example.org", "did you mean https://example.org/"]),
        ("http://user:secret@example.org/", ["userinfo"]),
        ("http://", ["http://"]),
        ("mailto:someone@example.org", ["scheme"]),
    ],
)
def test_a_seed_that_is_no_http_url_is_refused_before_anything_is_written(
    tmp_path: Path, seed: str, words: list[str]
) -> None:
    one_line(headrace("crawl", seed, "--contact", "me@example.org", cwd=tmp_path), 2, *words)
    assert list(tmp_path.iterdir()) == []


def test_a_seeds_file_is_named_with_the_bad_line(tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("# fine\nhttps://example.org/\n\nnot a url\n")
    done = headrace("crawl", "--seeds-file", "s.txt", "--contact", "me@example.org", cwd=tmp_path)
    one_line(done, 2, "s.txt line 4", "not a url")
    assert not (tmp_path / "workspace").exists()


def test_a_missing_seeds_file_is_named(tmp_path: Path) -> None:
    one_line(headrace("crawl", "--seeds-file", "nowhere.txt", cwd=tmp_path), 2, "nowhere.txt")


def test_a_public_crawl_without_a_contact_is_refused_with_the_way_to_give_it(tmp_path: Path) -> None:
    one_line(headrace("crawl", "https://example.org/", cwd=tmp_path), 2, "contact", "--contact")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", [("crawl", "https://example.org/"), ("config", "check")])
def test_a_contact_that_cannot_stand_in_a_user_agent_is_refused(tmp_path: Path, command: tuple[str, ...]) -> None:
    done = headrace(*command, cwd=tmp_path, HEADRACE_CONTACT="Bob (bots)")
    one_line(done, 2, "contact", "Bob (bots)", "User-Agent")


def test_a_crawl_without_seeds_says_so(tmp_path: Path) -> None:
    one_line(headrace("crawl", "--contact", "me@example.org", cwd=tmp_path), 2, "no seeds")


def test_an_unknown_setting_names_the_nearest_one(tmp_path: Path) -> None:
    done = headrace("crawl", SEED, "--set", "politenes.delay=2", cwd=tmp_path)
    one_line(done, 2, "politenes.delay", "politeness.delay")


def test_a_wrong_value_names_the_setting_the_value_and_what_is_allowed(tmp_path: Path) -> None:
    done = headrace("crawl", SEED, cwd=tmp_path, HEADRACE_POLITENESS__DELAY="fast")
    one_line(done, 2, "politeness.delay", "fast", "number")


def test_a_broken_configuration_file_is_named_with_the_place(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text("politeness:\n  delay: [1\n")
    one_line(headrace("crawl", SEED, "--config", "c.yaml", cwd=tmp_path), 2, "c.yaml")


def test_a_configuration_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    one_line(headrace("crawl", SEED, "--config", "none.yaml", cwd=tmp_path), 2, "none.yaml")


def test_an_unknown_scope_lists_the_known_ones(tmp_path: Path) -> None:
    one_line(headrace("crawl", SEED, "--scope", "galaxy", cwd=tmp_path), 2, "galaxy", "domain")


@pytest.mark.parametrize(
    ("setting", "value", "what"),
    [
        ("canonical.drop_params", "a*b", "*"),
        ("canonical.drop_params", " utm_x", "utm_"),
        ("canonical.drop_params", "", "names of parameters"),
        ("canonical.drop_params", "a=b", "a=b"),
        ("scope.page_types", '["issue=/a", "page=/c", "issue=/b"]', "issue twice"),
        ("limits.group_pages", '["issue=1", "issue=2"]', "issue twice"),
        ("politeness.hosts", '["A.test delay=1", "a.test delay=2"]', "a.test twice"),
    ],
)
def test_a_setting_that_means_nothing_is_refused(tmp_path: Path, setting: str, value: str, what: str) -> None:
    one_line(headrace("crawl", SEED, "--set", f"{setting}={value}", cwd=tmp_path), 2, setting, what)


def test_a_depth_nearer_than_a_seed_is_refused(tmp_path: Path) -> None:
    one_line(headrace("policy", "check", SEED, "--depth", "-1", cwd=tmp_path), 2, "--depth -1")


def test_a_workspace_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    one_line(headrace("crawl", SEED, "--workspace", "file/ws", cwd=tmp_path), 2, "file/ws")


def test_a_broker_that_is_not_there_is_named(tmp_path: Path) -> None:
    url = f"kafka://127.0.0.1:{_closed_port()}"
    done = headrace("status", cwd=tmp_path, HEADRACE_STREAMS__URL=url)
    one_line(done, 1, url.removeprefix("kafka://"))


def test_an_engine_of_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    done = headrace("crawl", SEED, "--set", "streams.url=rabbit://x", cwd=tmp_path)
    one_line(done, 2, "streams.url", "rabbit://x")


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = headrace("crawl", SEED, "--allow-private", "127.0.0.0/8", "--set", f"metrics.port={port}", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert f"127.0.0.1:{port}" in done.stderr


def test_a_workspace_of_another_partition_count_is_refused(tmp_path: Path) -> None:
    assert headrace("seed", SEED, cwd=tmp_path).returncode == 0
    done = headrace("crawl", SEED, "--set", "streams.partitions=3", cwd=tmp_path)
    one_line(done, 2, "partitions", "3", "1")


def test_a_workspace_of_other_canonical_rules_is_refused(tmp_path: Path) -> None:
    assert headrace("seed", SEED, cwd=tmp_path).returncode == 0
    done = headrace("crawl", SEED, "--set", "canonical.sort_params=false", cwd=tmp_path)
    one_line(done, 2, "canonical")


def test_run_needs_a_broker_and_a_known_service(tmp_path: Path) -> None:
    one_line(headrace("run", "fetcher", cwd=tmp_path), 2, "streams.url")
    one_line(headrace("run", "fisher", cwd=tmp_path), 2, "fisher", "fetcher")


@pytest.mark.parametrize("command", ["status", "pause", "stop", "pages", "reset"])
def test_a_command_on_a_workspace_that_is_not_there_says_how_to_make_one(tmp_path: Path, command: str) -> None:
    done = headrace(command, *(["--yes"] if command == "reset" else []), cwd=tmp_path)
    one_line(done, 2, "headrace crawl")
    assert list(tmp_path.iterdir()) == []


def test_replay_refuses_a_time_it_cannot_read(tmp_path: Path) -> None:
    one_line(headrace("replay", "--from", "yesterday-ish", cwd=tmp_path), 2, "--from", "yesterday-ish")


def test_every_command_has_an_example_in_its_help(tmp_path: Path) -> None:
    commands = [
        *(["crawl"], ["run"], ["seed"], ["status"], ["pause"], ["resume"], ["stop"], ["pages"], ["show"], ["replay"]),
        *(["configure"], ["reset"], ["config", "show"], ["config", "check"], ["topics", "create"], ["topics", "show"]),
        *(["policy", "check"], ["policy", "robots"]),
    ]
    for command in commands:
        done = headrace(*command, "--help", cwd=tmp_path)
        assert done.returncode == 0
        assert "Example:" in done.stdout, command


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.mark.skipif(os.geteuid() != 0 or not sys.platform.startswith("linux"), reason="needs to mount a small disk")
def test_a_full_disk_ends_the_crawl_with_one_line_and_the_crawl_goes_on_later(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(small)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")
    try:
        done = headrace("seed", SEED, "--workspace", str(small / "ws"), cwd=tmp_path)
        subprocess.run(["dd", "if=/dev/zero", f"of={small / 'filler'}", "bs=64k"], capture_output=True, check=False)
        done = headrace("crawl", SEED, "--workspace", str(small / "ws"), cwd=tmp_path)
        assert done.returncode == 1, done
        assert "Traceback" not in done.stderr
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)


@pytest.mark.parametrize("command", ["crawl", "seed", "run", "status", "resume", "pause", "reset", "pages"])
@pytest.mark.parametrize("workspace", ["file", "file/ws"])
def test_a_workspace_that_is_a_file_is_one_line(tmp_path: Path, command: str, workspace: str) -> None:
    (tmp_path / "file").write_text("kept")
    words = {"crawl": [SEED], "seed": [SEED], "run": ["parser"], "reset": ["--yes"]}.get(command, [])
    broker = ["--set", "streams.url=kafka://127.0.0.1:1"] if command == "run" else []
    one_line(headrace(command, *words, *broker, "--workspace", workspace, cwd=tmp_path), 2, workspace)
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.skipif(os.geteuid() != 0 or not sys.platform.startswith("linux"), reason="needs to mount a small disk")
def test_a_workspace_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "none", str(disk)], capture_output=True).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        workspace = ["--workspace", str(disk / "ws")]
        assert headrace("seed", SEED, *workspace, cwd=tmp_path).returncode == 0
        (disk / "ws" / "pause").touch()
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for words in (["crawl", SEED], ["seed", SEED], ["pause"], ["resume"], ["status"]):
            one_line(headrace(*words, *workspace, cwd=tmp_path), 1, "Read-only file system")
        broker = ["--set", "streams.url=kafka://127.0.0.1:1"]
        one_line(headrace("run", "parser", *broker, *workspace, cwd=tmp_path), 2, "Read-only file system")
        elsewhere = ["--workspace", str(disk / "new")]
        one_line(headrace("crawl", SEED, *elsewhere, cwd=tmp_path), 2, "Read-only file system")
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
