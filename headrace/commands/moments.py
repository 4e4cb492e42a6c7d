"""A point in time as people type it."""

import datetime
import math

from headrace_schemas.errors import UsageError


def moment(text: str, option: str) -> float:
    """ISO 8601, in UTC unless it says otherwise, or seconds since the epoch. → seconds since the epoch."""
    try:
        seconds = float(text)
    except ValueError:
        pass
    else:
        if math.isfinite(seconds):
            return seconds
    try:
        parsed = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{option} {text!r} is no time; allowed: 2026-01-31, 2026-01-31T12:00, seconds") from None
    return (parsed if parsed.tzinfo else parsed.replace(tzinfo=datetime.UTC)).timestamp()
