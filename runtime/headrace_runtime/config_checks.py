"""What a type cannot say of a setting. A check returns what would be allowed instead, or None if all is well."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any

_BROKER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")


def complaint(name: str, value: Any) -> str | None:
    check = _CHECKS.get(name)
    return check(value) if check else None


def _ranges(value: tuple[str, ...]) -> str | None:
    for text in value:
        try:
            ipaddress.ip_network(text)
        except ValueError:
            return _nearest_range(text)
    return None


def _nearest_range(text: str) -> str:
    """10.0.0.1/8 is a common slip: say what was probably meant, do not guess it."""
    hint = "address ranges such as 10.0.0.0/8 or ::1/128"
    try:
        return f"{hint}; {text} lies in {ipaddress.ip_network(text, strict=False)}"
    except ValueError:
        return hint


def _streams(value: str) -> str | None:
    if value == "embedded:":
        return None
    brokers = value.removeprefix("kafka://").removesuffix("/").split(",")
    found = [_BROKER.fullmatch(broker) for broker in brokers]
    if value.startswith("kafka://") and all(broker and 0 < int(broker[2]) <= 65_535 for broker in found):
        return None
    return "embedded: or kafka://host:port[,host:port]"


def _index(value: str) -> str | None:
    if not value or re.match(r"sqlite:///.|postgresql(\+psycopg)?://", value):
        return None
    return "sqlite:///path or postgresql://user:password@host/database, or empty for index.sqlite in the workspace"


def _host(value: str) -> str | None:
    return None if re.fullmatch(r"[A-Za-z0-9._:%-]+", value) else "an address or host name without port"


_CHECKS: Mapping[str, Callable[[Any], str | None]] = {
    "fetch.allow_private": _ranges,
    "streams.url": _streams,
    "index.url": _index,
    "metrics.host": _host,
}
