"""`python -m deploy.kafka up` starts an empty local broker and prints its address; `down` ends it."""

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from deploy.kafka import jars
from deploy.kafka.broker import Broker, PortTaken, Quorum, command_of

HOME = jars.CACHE / "broker"
RECORD = jars.CACHE / "broker.json"
_END_SECONDS = 15.0


def main(arguments: list[str]) -> int:
    commands = {"up": up, "down": down}
    if len(arguments) != 1 or arguments[0] not in commands:
        print("usage: python -m deploy.kafka up|down", file=sys.stderr)
        return 2
    jars.CACHE.mkdir(exist_ok=True)
    try:
        with jars.locked(jars.CACHE / "broker.lock"):
            commands[arguments[0]]()
    except jars.CannotRun as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def up() -> None:
    jars.java()
    jars.fetched()
    down()
    print("starting Apache Kafka", file=sys.stderr, flush=True)
    try:
        broker = _started()
    except BaseException:
        down()
        raise
    print(broker.url, flush=True)


def _started() -> Broker:
    """The pid is written down before the first wait: a broken-off `up` leaves nothing that `down` cannot end."""
    for left in (2, 1, 0):
        broker = Broker(HOME, quorum=Quorum.free())
        broker.spawn()
        assert broker.process is not None
        RECORD.write_text(json.dumps({"pid": broker.process.pid, "url": broker.url}))
        try:
            broker.wait()
            return broker
        except PortTaken:
            if not left:
                raise
            broker.kill()
            down()
    raise AssertionError


def down() -> None:
    if RECORD.exists():
        _end(int(json.loads(RECORD.read_text())["pid"]))
        RECORD.unlink()
    shutil.rmtree(HOME, ignore_errors=True)


def _end(pid: int) -> None:
    """Only if that pid still is a broker started on our folder. Not gently: what it kept is deleted anyway."""
    if not _ours(pid):
        return
    print(f"ending the local Kafka (pid {pid})", file=sys.stderr, flush=True)
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + _END_SECONDS
    while _ours(pid) and time.monotonic() < deadline:
        time.sleep(0.05)


def _ours(pid: int) -> bool:
    command = command_of(pid)
    return "kafka.Kafka" in command and str(Path(HOME, "server.properties")) in command


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
