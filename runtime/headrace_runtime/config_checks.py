"""What a type cannot say of a setting. A check returns what would be allowed instead, or None if all is well."""

import ipaddress
import re
from collections.abc import Callable, Mapping
from typing import Any

from headrace_schemas import rules
from headrace_schemas.settings import Settings

_BROKER = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})")


def complaint(name: str, value: Any) -> str | None:
    check = _CHECKS.get(name)
    return check(value) if check else None


def together(settings: Settings) -> str | None:
    """What settings that are each right may still get wrong with each other: a whole line."""
    known = {rules.page_type(text)[0] for text in settings.scope.page_types} | {rules.DEFAULT_TYPE}
    capped = [rules.group_cap(text)[0] for text in settings.limits.group_pages]
    for name, used in (("scope.follow_only", settings.scope.follow_only), ("limits.group_pages", capped)):
        for each in used:
            if each not in known and each != rules.ALL_TYPES:
                return f"{name}: {each} is no page type; those of scope.page_types: {', '.join(sorted(known))}"
    if capped and not settings.scope.group:
        return "limits.group_pages limits the pages of a group, and scope.group does not say what a group is"
    return None


def _each(read: Callable[[str], object]) -> Callable[[tuple[str, ...]], str | None]:
    def check(value: tuple[str, ...]) -> str | None:
        for text in value:
            try:
                read(text)
            except rules.BadRule as bad:
                return f"{bad}; not {text[:60]!a}" if len(value) > 1 else str(bad)
        return None

    return check


def _once(read: Callable[[str], tuple[Any, ...]]) -> Callable[[tuple[str, ...]], str | None]:
    """Each rule names what it is for: a second one of that name would be ignored, or take the place of the first."""

    def check(value: tuple[str, ...]) -> str | None:
        if bad := _each(read)(value):
            return bad
        names = [read(text)[0] for text in value]
        return next((f"each name once; not {name} twice" for name in names if names.count(name) > 1), None)

    return check


def _patterns(value: tuple[str, ...]) -> str | None:
    from headrace_schemas.patterns import BadPattern, Patterns  # few settings need it, every command loads this module

    try:
        Patterns(value)
    except BadPattern as bad:
        return f"RE2 patterns; {bad}"
    return None


def _page_types(value: tuple[str, ...]) -> str | None:
    return _once(rules.page_type)(value) or _patterns(tuple(rules.page_type(text)[1] for text in value))


def _group(value: str) -> str | None:
    from headrace_schemas.patterns import BadPattern, Captures

    try:
        if value:
            Captures(value)
    except BadPattern as bad:
        return f"an RE2 pattern with captures; {bad}"
    return None


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
    "scope.hosts": _each(rules.host_name),
    "scope.domains": _each(rules.host_name),
    "scope.deny_hosts": _each(rules.host_name),
    "scope.allow": _patterns,
    "scope.deny": _patterns,
    "scope.page_types": _page_types,
    "scope.follow_only": _each(rules.type_name),
    "scope.group": _group,
    "scope.low_priority": _patterns,
    "politeness.hosts": _once(rules.polite_host),
    "limits.group_pages": _once(rules.group_cap),
    "canonical.drop_params": _each(rules.param_name),
    "canonical.sites": _each(rules.site_params),
    "fetch.allow_private": _ranges,
    "streams.url": _streams,
    "index.url": _index,
    "metrics.host": _host,
}
