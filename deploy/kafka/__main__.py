"""`python -m deploy.kafka up` starts an empty local broker and prints its address; `down` ends it.

`up --nodes 3`: three of them, with three copies of what they keep for themselves, two of which must agree.
"""

import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from functools import partial

from deploy.kafka import jars
from deploy.kafka.broker import PortTaken, command_of
from deploy.kafka.nodes import Nodes

HOME = jars.CACHE / "broker"
RECORD = jars.CACHE / "broker.json"
_END_SECONDS = 15.0
_MOST = 9


def main(arguments: list[str]) -> int:
    command: Callable[[], None]
    match arguments:
        case ["up"]:
            command = up
        case ["up", "--nodes", count] if count.isdecimal() and 1 <= int(count) <= _MOST:
            command = partial(up, int(count))
        case ["down"]:
            command = down
        case _:
            print(f"usage: python -m deploy.kafka up [--nodes 1..{_MOST}] | down", file=sys.stderr)
            return 2
    jars.CACHE.mkdir(exist_ok=True)
    try:
        with jars.locked(jars.CACHE / "broker.lock"):
            command()
    except jars.CannotRun as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def up(count: int = 1) -> None:
    jars.java()
    jars.fetched()
    down()
    print(f"starting Apache Kafka{f', {count} nodes' if count > 1 else ''}", file=sys.stderr, flush=True)
    try:
        nodes = _started(count)
    except BaseException:
        down()
        raise
    print(nodes.url, flush=True)


def _started(count: int) -> Nodes:
    """The pids are written down before the first wait: a broken-off `up` leaves nothing that `down` cannot end."""
    for left in (2, 1, 0):
        nodes = Nodes(count, HOME)
        try:
            nodes.spawn()
        finally:
            if nodes.pids:
                RECORD.write_text(json.dumps({"pid": nodes.pids[0], "pids": nodes.pids, "url": nodes.url}))
        try:
            nodes.wait()
            return nodes
        except PortTaken:
            if not left:
                raise
            nodes.forget()
            down()
    raise AssertionError


def down() -> None:
    if RECORD.exists():
        record = json.loads(RECORD.read_text())
        _end([pid for pid in record.get("pids", [record["pid"]]) if _ours(pid)])
        RECORD.unlink()
    shutil.rmtree(HOME, ignore_errors=True)


def _end(pids: list[int]) -> None:
    """Not gently: what they kept is deleted anyway."""
    for pid in pids:
        print(f"ending the local Kafka (pid {pid})", file=sys.stderr, flush=True)
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + _END_SECONDS
    while any(map(_ours, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)


def _ours(pid: int) -> bool:
    """Only if that pid still is a broker started on our folder: the number may have gone to someone else."""
    command = command_of(pid)
    return "kafka.Kafka" in command and f"{HOME}{os.sep}" in command and "server.properties" in command


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
