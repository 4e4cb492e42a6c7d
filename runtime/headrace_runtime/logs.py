"""Structured log lines over the standard library's logging: an event in words, and fields.

log = get_logger("fetcher")
log.info("lane opened", partition=3)

human:  12:30:01 info  fetcher  lane opened partition=3
json:   {"ts": "2026-01-31T12:30:01.120Z", "level": "info", "logger": "fetcher", "event": "lane opened", "partition": 3}
"""

import json
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, TextIO

from headrace_runtime.clock import Clock, SystemClock

ROOT = "headrace"
_REMEMBERED = 1_024  # keys of `once` and `seldom`: what is said of hosts must not grow with the web

_LEVELS = {logging.DEBUG: "debug", logging.INFO: "info", logging.WARNING: "warning", logging.ERROR: "error"}
_SHORT = {"warning": "warn"}
# C0, DEL, C1, line and paragraph separators, and the marks that turn text around: values come from the web, and must
# neither start a line of their own nor repaint a terminal.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BARE = re.compile(r"[^\s\"'=\\]+")


def setup(format: Literal["human", "json"], level: str, stream: TextIO) -> None:
    """Sends every line of this process to `stream`; others' libraries speak from warning on. Calling it again replaces
    the last one."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(_Json() if format == "json" else _Human())
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old.formatter, _Json | _Human)]:
        root.removeHandler(old)
    handler.addFilter(_ours_or_serious)
    root.addHandler(handler)
    root.setLevel(level.upper())


def get_logger(name: str) -> "Log":
    return Log(logging.getLogger(f"{ROOT}.{name}"))


def _ours_or_serious(record: logging.LogRecord) -> bool:
    """Ours are those of every package `headrace_…` too, for those who ask the standard library for a logger."""
    return record.levelno >= logging.WARNING or record.name.startswith(ROOT)


class Log:
    """Called anywhere; `event` is constant words, what varies goes into fields."""

    def __init__(self, logger: logging.Logger, clock: Clock | None = None) -> None:
        self._logger, self._clock = logger, clock or SystemClock()
        self._last: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def debug(self, event: str, /, **fields: Any) -> None:
        self._log(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: Any) -> None:
        self._log(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        self._log(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: Any) -> None:
        self._log(logging.ERROR, event, fields)

    def exception(self, event: str, /, *, of: BaseException | None = None, **fields: Any) -> None:
        """An error, with the traceback of `of`, or of the exception being handled."""
        self._log(logging.ERROR, event, fields, exc_info=of or True)

    def once(self, key: str, event: str, /, **fields: Any) -> None:
        """A warning, the first time `key` is seen."""
        self.seldom(key, float("inf"), event, **fields)

    def seldom(self, key: str, seconds: float, event: str, /, **fields: Any) -> None:
        """A warning, at most every `seconds` for one `key`; it says how many were left out since."""
        now = self._clock.monotonic()
        last, hidden = self._last.pop(key, (float("-inf"), 0))
        is_due = last == float("-inf") or now - last >= seconds
        self._last[key] = (now, 0) if is_due else (last, hidden + 1)
        if len(self._last) > _REMEMBERED:
            self._last.popitem(last=False)
        if is_due:
            self.warning(event, **fields, **({"repeated": hidden} if hidden else {}))

    def forget(self, key: str) -> None:
        """What was wrong is over: say it again the next time."""
        self._last.pop(key, None)

    def _log(self, level: int, event: str, fields: Mapping[str, Any], exc_info: bool | BaseException = False) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, "%s", event, exc_info=exc_info, extra={"fields": fields}, stacklevel=3)


class _Human(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        level = _level(record)
        event = escaped(record.getMessage())
        shown = "".join(f" {name}={_human(value)}" for name, value in _fields(record).items())
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        line = f"{clock} {_SHORT.get(level, level):<5} {_name(record):<8} {event}{shown}"
        return f"{line}\n{_indented(_traceback(self, record))}" if record.exc_info else line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": _level(record),
            "logger": _name(record),
            "event": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = _traceback(self, record)
        fields = {name + "_" if name in line else name: value for name, value in _fields(record).items()}
        try:
            return json.dumps(line | fields, default=_plain, allow_nan=False)
        except (TypeError, ValueError, RecursionError):  # keys that are no texts, NaN, a ring: a line all the same
            return json.dumps(line | {name: repr(value) for name, value in fields.items()})


def escaped(text: str) -> str:
    return _CONTROL.sub(lambda match: match[0].encode("unicode_escape", "surrogatepass").decode(), text)


def _level(record: logging.LogRecord) -> str:
    return _LEVELS.get(record.levelno, "error" if record.levelno > logging.ERROR else "debug")


def _name(record: logging.LogRecord) -> str:
    """One word for ours: `headrace_frontier.handler` is the frontier, `headrace_runtime.streams.kafka` the streams."""
    if not record.name.startswith(ROOT):
        return record.name
    inner = record.name.removeprefix(f"{ROOT}_runtime.").removeprefix(f"{ROOT}_").removeprefix(f"{ROOT}.")
    return inner.partition(".")[0]


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = getattr(record, "fields", {})
    return fields


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    return formatter.formatException(record.exc_info) if record.exc_info and record.exc_info[0] else ""


def _indented(traceback: str) -> str:
    """An exception's text may come from the web too: no line of it can pass for one of the log."""
    return "\n".join(f"    {escaped(line)}" for line in traceback.split("\n"))


def _plain(value: Any) -> Any:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _human(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict | list | tuple):
        return _compact(value)
    text = str(_plain(value))
    if _BARE.fullmatch(text) and not _CONTROL.search(text):
        return text
    return '"' + escaped(text.replace("\\", r"\\").replace('"', r"\"")) + '"'


def _compact(value: Any) -> str:
    try:
        return json.dumps(value, default=_plain)
    except (TypeError, ValueError, RecursionError):
        return escaped(repr(value))
