"""The parsers, each as its documentation says it is used: bytes of a file, an agent, URLs → verdicts."""

import signal
import urllib.robotparser
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from protego import Protego
from robotexclusionrulesparser import RobotExclusionRulesParser

from headrace_frontier.robots import RobotsRules

Parser = Callable[[bytes, str, Sequence[str]], list[bool]]


def rerp(text: bytes, agent: str, urls: Sequence[str]) -> list[bool]:
    parser = RobotExclusionRulesParser()
    parser.parse(text.decode("utf-8", "replace"))
    return [bool(parser.is_allowed(agent, url)) for url in urls]


def standard(text: bytes, agent: str, urls: Sequence[str]) -> list[bool]:
    parser = urllib.robotparser.RobotFileParser()
    parser.parse(text.decode("utf-8", "surrogateescape").splitlines())
    return [parser.can_fetch(agent, url) for url in urls]


def protego(text: bytes, agent: str, urls: Sequence[str]) -> list[bool]:
    parser = Protego.parse(text.decode("utf-8", "replace"))
    return [bool(parser.can_fetch(url, agent)) for url in urls]


def filtered(text: bytes, agent: str, urls: Sequence[str]) -> list[bool]:
    rules = RobotsRules.parse(text, agent)
    return [rules.allows(url) for url in urls]


OURS = "headrace"

PARSERS: dict[str, Parser] = {
    "robotexclusionrulesparser": rerp,
    "urllib.robotparser": standard,
    "Protego": protego,
    OURS: filtered,
}


@contextmanager
def limit(seconds: float) -> Iterator[None]:
    """Raises TimeoutError past that: `re` looks for signals while it matches."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def verdicts(parser: Parser, text: bytes, agent: str, urls: Sequence[str], seconds: float = 5.0) -> list[bool] | None:
    """None: it raised, or did not end in time."""
    try:
        with limit(seconds):
            return parser(text, agent, urls)
    except Exception:
        return None
