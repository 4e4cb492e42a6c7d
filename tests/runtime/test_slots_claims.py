"""Slots, with locks held by real processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace_runtime.slots import Slot, claim
from headrace_schemas.errors import UsageError, WorkspaceBusy

HOLDER = """
import sys, time
from pathlib import Path
from headrace_runtime.slots import claim
slot = claim(Path(sys.argv[1]), "fetcher", *sys.argv[2:])
print(slot.instance, flush=True)
time.sleep(60)
"""


@contextmanager
def holder(workspace: Path, *instance: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-c", HOLDER, str(workspace), *instance]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@contextmanager
def claim_held(workspace: Path, instance: str = "") -> Iterator[Slot]:
    slot = claim(workspace, "fetcher", instance)
    try:
        yield slot
    finally:
        slot.release()


def test_each_process_gets_the_first_free_slot(tmp_path: Path) -> None:
    with holder(tmp_path) as (_, first), holder(tmp_path) as (_, second):
        third = claim(tmp_path, "fetcher")
        assert (first, second, third.instance) == ("fetcher-0", "fetcher-1", "fetcher-2")
        assert third.path == tmp_path / "state" / "fetcher-2"
        assert third.path.is_dir()
        third.release()


def test_a_killed_process_leaves_its_slot_and_its_state_to_the_next(tmp_path: Path) -> None:
    with holder(tmp_path) as (process, _):
        (tmp_path / "state" / "fetcher-0" / "kept").write_text("state")
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)
        slot = claim(tmp_path, "fetcher")
    assert slot.instance == "fetcher-0"
    assert (slot.path / "kept").read_text() == "state"
    assert (slot.path / "lock").read_text() == f"{os.getpid()}\n"
    slot.release()


def test_services_do_not_share_slots(tmp_path: Path) -> None:
    slots = [claim(tmp_path, "fetcher"), claim(tmp_path, "parser"), claim(tmp_path, "fetcher")]
    assert [slot.instance for slot in slots] == ["fetcher-0", "parser-0", "fetcher-1"]
    for slot in slots:
        slot.release()


def test_a_released_slot_is_free_again_and_releasing_twice_is_once(tmp_path: Path) -> None:
    slot = claim(tmp_path, "fetcher")
    slot.release()
    again = claim(tmp_path, "fetcher")
    slot.release()
    assert again.instance == slot.instance
    assert claim(tmp_path, "fetcher").instance == "fetcher-1"
    again.release()


def test_a_named_instance_that_is_held_names_its_holder(tmp_path: Path) -> None:
    with holder(tmp_path, "blue") as (process, name):
        assert name == "fetcher-blue"
        with pytest.raises(WorkspaceBusy, match=f"fetcher-blue is held by process {process.pid}"):
            claim(tmp_path, "fetcher", "blue")
        other = claim(tmp_path, "fetcher", "green")
        assert other.path == tmp_path / "state" / "fetcher-green"
        other.release()


@pytest.mark.parametrize("instance", ["../x", "a/b", ".", "", "a b", "x" * 200, "ü"])
def test_an_instance_is_a_plain_name(tmp_path: Path, instance: str) -> None:
    if instance:
        with pytest.raises(UsageError, match=r"streams\.instance"):
            claim(tmp_path, "fetcher", instance)
    else:
        claim(tmp_path, "fetcher", instance).release()


def test_a_workspace_that_cannot_be_written_is_a_line(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(UsageError, match="cannot keep state in"):
        claim(tmp_path, "fetcher")


def test_a_member_is_the_same_after_a_restart_and_in_no_other_workspace(tmp_path: Path) -> None:
    members = []
    for workspace in ("one", "one", "other"):
        with claim_held(tmp_path / workspace) as slot:
            members.append(slot.member)
    first, again, other = members
    assert first == again != other
    assert all(member.startswith("fetcher-0-") for member in members)


def test_the_members_of_one_workspace_differ_by_their_slots_only(tmp_path: Path) -> None:
    with claim_held(tmp_path) as first, claim_held(tmp_path) as second, claim_held(tmp_path, "blue") as named:
        word = (tmp_path / "state" / "id").read_text().strip()
        assert [slot.member for slot in (first, second, named)] == [
            f"fetcher-0-{word}",
            f"fetcher-1-{word}",
            f"fetcher-blue-{word}",
        ]


@pytest.mark.parametrize("kept", ["", "\n", "a b\n", "\0\0\0"])
def test_a_word_that_a_crash_left_unwritten_is_made_anew(tmp_path: Path, kept: str) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "id").write_text(kept)
    with claim_held(tmp_path) as slot:
        member = slot.member
    with claim_held(tmp_path) as slot:
        assert slot.member == member == f"fetcher-0-{(tmp_path / 'state' / 'id').read_text().strip()}"
