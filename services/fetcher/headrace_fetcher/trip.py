"""One attempt as it goes on, and what is said of it when it has ended. Made for every page, so of structs."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from headrace_fetcher.headers import NO_HEADERS, Headers
from headrace_runtime.clock import Clock
from headrace_schemas.errors import HeadraceError
from headrace_schemas.messages import Failed, FetchedPage, NotModified, Outcome, Phases

Hold = Callable[[str], Awaitable[None]]
"""Returns when a request to that URL may start: its host's turn, not paused, lane still ours."""
UNSENT = frozenset({"dns", "connect", "tls"})  # failures before anything could be written


class Figures(Struct, frozen=True):
    """What a result says of its attempt beside the outcome; the fields are those of `FetchResult`."""

    asked_at: float = 0.0
    hops: tuple[tuple[str, float], ...] = ()
    received: int = 0
    protocol: str = ""
    phases: Phases = Phases()


class Answer(Struct):
    """What became of one attempt, and the figures that go with it."""

    outcome: Outcome
    page: FetchedPage | NotModified | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """Of an answer without a page; a page has its own."""
    figures: Figures = Figures()


class Trip(Struct):
    """What is known of an attempt while it goes on, also when it ends in an error."""

    started: float
    asked: bool = True
    """False where nothing was sent to the host at all."""
    written: float | None = None
    """When the last request was on the wire; None: not known to have been."""
    answered: float = 0.0
    """When the headers of its answer were here."""
    status: int = 0
    received: int = 0
    """Bytes of bodies over the wire."""
    headers: Headers = NO_HEADERS
    begun: float = 0.0
    """When the last request was begun (a robots.txt may take several); 0: nothing went to where it was to go."""
    connect: float = -1.0
    """Seconds that went into its connection; 0: a kept one, -1: the client cannot tell."""
    protocol: str = ""
    fault: HeadraceError | None = None
    """Why the name of the next request's host could not be looked up."""
    hops: list[tuple[str, float]] = []
    """Requests to other hosts, and to this one before the last: host, and when (epoch)."""

    def hopped(self, host: str, outcome: Outcome, clock: Clock) -> None:
        """A request to `host` has ended, and the attempt goes on to another."""
        if at := self.asked_at(outcome, clock):
            self.hops.append((host, at))

    def figures(self, outcome: Outcome, clock: Clock, asked_at: float | None = None) -> Figures:
        """Called when the attempt has ended. `asked_at`: where it is not that of the last request."""
        now = clock.monotonic()
        to_headers = (self.answered or now) - self.begun - max(0.0, self.connect)
        phases = Phases(
            connect=-1 if self.connect < 0 else round(self.connect * 1000),
            first_byte=max(0, round(to_headers * 1000)) if self.begun else 0,
            body=round((now - self.answered) * 1000) if self.answered else 0,
        )
        if asked_at is None:
            asked_at = self.asked_at(outcome, clock)
        return Figures(asked_at, tuple(self.hops), self.received, self.protocol, phases)

    def asked_at(self, outcome: Outcome, clock: Clock) -> float:
        """Epoch seconds; 0: nothing was sent. Where the moment is not known, now: never earlier than it was."""
        if self.written is not None:
            return clock.now() - (clock.monotonic() - self.written)
        if not self.begun or (isinstance(outcome, Failed) and outcome.reason in UNSENT):
            return 0.0
        return clock.now()
