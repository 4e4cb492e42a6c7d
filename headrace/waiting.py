"""Why something waits, and until when, in the words that `explain` and `status` share."""

import time
from collections.abc import Mapping
from typing import Any

_WORDS = {
    "not_running": "no crawl is running here: `headrace crawl` goes on",
    "paused": "the crawl is paused: `headrace resume` goes on",
    "stopping": "the crawl was told to stop: `headrace crawl` goes on",
    "new": "no crawl was started here yet",
    "answer": "it is with the fetcher",
    "host_dead": "{host} failed again and again and is given up for this run: its queue is being settled as failed",
    "robots_unavailable": "the robots.txt of {host} could not be had and is given up for this run",
    "address": "the address of {host} is not one that may be reached (fetch.allow_private)",
    "scope": "the scope has changed since it was found: it will be refused at its turn",
    "robots_disallow": "robots.txt forbids it: it will be refused at its turn",
    "breaker": "{host} failed again and again and is left alone until {until}",
    "retry_after": "{host} asked to be left alone (Retry-After) until {until}",
    "retry": "the next attempt is due at {until}",
    "robots": "the robots.txt of {host} could not be had; it is asked for again at {until}",
    "robots_asked": "robots.txt is not yet known: it has been asked for",
    "robots_needed": "robots.txt is not yet known: it is asked for first, at the turn of {host}",
    "cap": "a cap of its host or group is reached (limits.host_pages, host_bytes, group_pages)",
    "cap_busy": "what is under way may use up a cap of its host or group: its answers decide",
    "budget": "limits.max_pages ({limit:,}) is spent: raise it to go on",
    "credit": "a credit of limits.max_pages ({limit:,}) has been asked for and not granted yet",
    "backlog": "{behind:,} fetched pages are not yet parsed and stored, more than limits.max_backlog ({limit:,})",
    "window": "{in_flight:,} requests of its partition are under way: as many as may be",
    "turn": "only its turn, which comes about {until}",
}


def sentence(wait: Mapping[str, Any], now: float, host: str = "") -> str:
    """`wait` as the frontier says it; a word of a newer release is shown as it is."""
    word = str(wait["for"])
    facts = {**wait, "host": host or "its host", "until": when(float(wait.get("until", 0.0)), now)}
    if word == "turn" and wait.get("at_least"):
        facts["until"] += " or later"
    if word not in _WORDS:
        return word
    try:
        return _WORDS[word].format(**facts)
    except (KeyError, ValueError):  # said by another release
        return word


def when(at: float, now: float) -> str:
    """Local clock time, and how far that is from now."""
    if not at:
        return "an unknown time"
    near = abs(at - now) < 12 * 3600
    clock = time.strftime("%H:%M:%S" if near else "%Y-%m-%d %H:%M:%S", time.localtime(at))
    away = span(abs(at - now))
    return f"{clock} (now)" if abs(at - now) < 0.5 else f"{clock} ({f'in {away}' if at > now else f'{away} ago'})"


def span(seconds: float) -> str:
    for size, name in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"
