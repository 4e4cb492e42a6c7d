"""The small set of things that can go wrong with one attempt; every HTTP client's own errors become one of these."""

import errno

from headrace_schemas.errors import HeadraceError


class AddressRefused(HeadraceError):
    """The name or address leads where the crawl may not go; nothing was sent."""


class TransportFault(HeadraceError):
    """No usable answer. `reason` is a word of `messages.FAILURES`."""

    def __init__(self, reason: str, detail: str, *, retriable: bool = True) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason, self.detail, self.retriable = reason, detail, retriable


class WentStale(TransportFault):
    """A connection that had been used before was closed instead of answering: most likely before the request came, but
    only the server knows. So it may be asked once more, in its turn."""

    def __init__(self, detail: str) -> None:
        super().__init__("protocol", detail)


class Exhausted(HeadraceError):
    """This process has no file descriptor, port or memory left for a connection: nothing was sent, and no host is to
    blame."""


_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL})
_AS_TOLD = tuple(f"(os error {number})" for number in sorted(_EXHAUSTED))  # by a client that is written in Rust


def is_exhaustion(fault: BaseException) -> bool:
    """Whether one of the causes of `fault` says that it is we who have run out of something."""
    cause: BaseException | None = fault
    while cause is not None:
        if getattr(cause, "errno", None) in _EXHAUSTED or (cause is fault and str(fault).endswith(_AS_TOLD)):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


class BodyTooLarge(HeadraceError):
    """More bytes than the cap, counted after each decoding step."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit} bytes")
        self.limit = limit


class OverBudget(BodyTooLarge):
    """More bytes than are left in the budget that the task carries."""


class TooSlow(HeadraceError):
    """A body that comes, but slower than anyone should wait for."""


class BrokenEncoding(HeadraceError):
    """The content encoding is unknown, corrupt or cut short."""


class NotWanted(HeadraceError):
    """The first bytes are not those of a page."""
