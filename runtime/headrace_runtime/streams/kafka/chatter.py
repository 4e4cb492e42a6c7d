"""aiokafka's own lines, made few: while a broker is away its clients write some ten a second, all of the same thing."""

import logging

from headrace_runtime.logs import get_logger

_AIOKAFKA = logging.getLogger("aiokafka")
_OURS = logging.getLogger("headrace")
_SELDOM = 300.0  # seconds

log = get_logger("streams")


class _Chatter(logging.Handler):
    """Each thing it says is said once in a while, with how often it was left out; a fault of its own in full."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            _OURS.handle(record)
        else:
            log.seldom(str(record.msg), _SELDOM, "trouble with Kafka", why=record.getMessage())


def subdue() -> None:
    """For the whole process. Twice is once."""
    if not any(isinstance(handler, _Chatter) for handler in _AIOKAFKA.handlers):
        _AIOKAFKA.addHandler(_Chatter(logging.WARNING))
        _AIOKAFKA.propagate = False
