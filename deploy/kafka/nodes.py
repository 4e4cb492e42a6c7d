"""All nodes of one cluster, as child processes: each can be killed, paused and started again by its number."""

import shutil
import tempfile
from pathlib import Path
from types import TracebackType

from deploy.kafka.broker import Broker, PortTaken, Quorum

_TRIES = 5


class Nodes:
    """`with Nodes(3) as nodes: nodes.url; nodes[2].kill(); nodes[2].start()`. They are numbered from 1.

    Without `home` they live in a temporary folder that goes with them; a single node has `home` for itself.
    """

    def __init__(self, size: int, home: Path | None = None) -> None:
        self._own = home is None
        self.home = home or Path(tempfile.mkdtemp(prefix="headrace-kafka-"))
        self.size = size
        self.brokers: list[Broker] = []

    def __getitem__(self, number: int) -> Broker:
        return self.brokers[number - 1]

    @property
    def url(self) -> str:
        return "kafka://" + ",".join(broker.address for broker in self.brokers)

    @property
    def pids(self) -> list[int]:
        return [broker.process.pid for broker in self.brokers if broker.process is not None]

    def start(self) -> None:
        """Returns once all of them answer. If another process took one of the ports meanwhile, others are tried."""
        for left in reversed(range(_TRIES)):
            self.spawn()
            try:
                self.wait()
                return
            except PortTaken:
                self.forget()
                if not left:
                    raise

    def spawn(self) -> None:
        """All on new ports; none is waited for, since a node answers only when most of them are there."""
        quorum = Quorum.free(self.size)
        homes = [self.home / f"node-{number + 1}" for number in range(self.size)] if self.size > 1 else [self.home]
        self.brokers = [Broker(home, node=number, quorum=quorum) for number, home in enumerate(homes, 1)]
        for broker in self.brokers:
            broker.spawn()

    def wait(self) -> None:
        for broker in self.brokers:
            broker.wait()

    def forget(self) -> None:
        """Ends them, not gently, and deletes what they kept."""
        for broker in self.brokers:
            broker.kill()
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self) -> "Nodes":
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._own:
            self.forget()
        else:
            for broker in self.brokers:
                broker.stop()
