"""One call of the handler: the unit being staged, and what holds for the whole of it."""

from msgspec import Struct

from headrace_frontier.hosts import Host
from headrace_frontier.policy import Policy
from headrace_runtime.streams.seams import Send, Unit
from headrace_schemas import codec
from headrace_schemas.messages import Control, Link


class Turn:
    def __init__(self, unit: Unit, now: float, control: Control, policy: Policy) -> None:
        self.unit, self.now, self.control, self.policy = unit, now, control, policy
        self.touched: dict[str, Host] = {}
        """Hosts that may have something to release now."""
        self.redirects: dict[int, list[Link]] = {}
        """Targets of redirects, by partition."""
        self.unfetched = 0
        """URLs settled without a request."""
        self.soonest: float | None = None
        """The earliest time at which something staged here is due."""
        self.soonest_host: Host | None = None

    @property
    def run(self) -> int:
        """At least 1: 0 is what a host never given up remembers."""
        return max(1, self.control.run)

    @property
    def revision(self) -> int:
        return self.control.revision

    def send(self, topic: str, partition: int, message: Struct, key: bytes = b"") -> None:
        self.unit.send(Send(topic, partition, codec.encode(message, self.control.revision), key))

    def wake(self, at: float, host: Host) -> None:
        if self.soonest is None or at < self.soonest:
            self.soonest, self.soonest_host = at, host
