"""`headrace explain URL`: its state and history, which rule decided, and what is next."""

import asyncio
import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from headrace.commands.options import DEFAULT_WORKSPACE, ConfigOption, SetOption, WorkspaceOption, load, start_logs
from headrace.waiting import sentence, when
from headrace.workspace import Workspace
from headrace_schemas.messages import FAILURES

Facts = dict[str, Any]
_REFUSALS = {
    "address": "its address is not one that may be reached, see fetch.allow_private",
    "cap": "a cap of its host or group is reached: limits.host_pages, host_bytes or group_pages",
    "depth": "it is deeper than limits.max_depth",
    "hop": "too many redirects in a row led to it",
    "robots_disallow": "robots.txt forbids it",
}


def register(app: typer.Typer) -> None:
    app.command(epilog="Example: headrace explain https://example.org/a")(explain)


def explain(
    url: Annotated[str, typer.Argument(metavar="URL")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, for scripts.")] = False,
    config: ConfigOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    set_: SetOption = None,
) -> None:
    """Its state and history, which rule decided, and why nothing happens, if nothing does."""
    from headrace.explaining import explained

    settings, _ = load(config, set_)
    start_logs(settings, "human", "warning")
    facts = asyncio.run(explained(settings, Workspace(workspace), url))
    print(json.dumps(facts) if as_json else "\n".join(as_lines(facts)))


def as_lines(facts: Facts) -> Iterator[str]:
    """For people."""
    now = facts["at"]
    yield facts["url"]
    yield _line("state", _state(facts))
    yield from _found(facts)
    yield _line("scope", _scope(facts["scope"]))
    yield _line("robots", _robots(facts["robots"], now))
    yield from _queue(facts, now)
    yield from _answers(facts, now)
    yield from _host(facts["host"])
    yield from _next(facts, now)


def _line(title: str, text: str) -> str:
    return f"  {title:<8} {text}"


def _state(facts: Facts) -> str:
    state, reason, answers = str(facts["state"]), facts.get("reason") or "", facts.get("answers") or {}
    match state:
        case "redirected":
            to = answers.get("metadata", {}).get("redirect_to", "")
            return f"redirected to {to}" if to else "redirected: what it leads to is a URL of its own"
        case "failed":
            why = FAILURES.get(reason, "")
            if reason == "http" and answers.get("http_status"):
                why = f"the server answered {answers['http_status']}"
            said = f"failed ({reason}{': ' if why else ''}{why})"
            command = "seed" if "owner" in facts else "crawl"  # a fleet tells who owns it
            return f"{said}; `headrace {command} --retry-failed` asks for it again"
        case "refused":
            why = _REFUSALS.get(reason, "")
            never = "" if answers.get("fetches") else ", never requested"
            return f"refused ({reason}{': ' if why else ''}{why}){never}"
        case "unknown" if _is_robots(facts):
            return "no page: asked for as the robots.txt of its host"
        case "unknown":
            return "never found"
    return state.replace("_", " ")


def _is_robots(facts: Facts) -> bool:
    """A robots.txt is a task of its own; only one that a page links to is a URL like others."""
    fetches = (facts.get("answers") or {}).get("fetches", ())
    return any(str(fetch["outcome"]).startswith("robots") or fetch.get("kind") == "robots" for fetch in fetches)


def _found(facts: Facts) -> Iterator[str]:
    """While it is queued the frontier knows; later the index does."""
    if facts["state"] == "unknown":
        return
    answers = facts.get("answers") or {}
    found = facts["found"] or {
        "referrer": answers.get("referrer", ""),
        "chain": answers.get("metadata", {}).get("chain", []),
    }
    depth = facts["depth"]
    words = [f"at depth {depth}" if depth else "a seed"]
    if found["referrer"]:
        words.append(f"on {found['referrer']}")
    yield _line("found", ", ".join(words))
    if found["chain"]:
        yield _line("", "through redirects: " + " → ".join([*found["chain"], facts["url"]]))
    elif facts["hop"]:
        yield _line("", f"through {facts['hop']} redirect{'s' if facts['hop'] > 1 else ''}")


def _scope(scope: Facts) -> str:
    verdict = "in" if scope["allowed"] else f"out ({scope['reason']})"
    kind = "" if scope["page_type"] == "page" else f"; page type {scope['page_type']}"
    group = f"; group {scope['group']}" if scope["group"] else ""
    return f"{verdict}: {scope['rule']}{kind}{group}"


def _robots(robots: Facts | None, now: float) -> str:
    if robots is None:
        return "robots.txt not asked for yet"
    if not robots["known"]:
        return {
            "asked": "robots.txt asked for, not answered yet",
            "waiting": f"robots.txt not to be had so far; next try at {when(robots['retry_at'], now)}",
            "unavailable": "robots.txt not to be had; given up for this run",
            "forbidden": "its address may not be reached; given up for this run",
        }.get(robots["standing"], "robots.txt not known")
    verdict = "allowed" if robots["allowed"] else "forbidden"
    by = f" by {robots['crawl_delay_rule']}" if robots.get("crawl_delay_rule") else ""
    delay = f"; asks for {robots['crawl_delay']:g} s between requests{by}" if robots["crawl_delay"] else ""
    count = robots.get("sitemaps", 0)
    maps = f"; names {count:,} sitemap{'' if count == 1 else 's'}" if count else ""
    return f"{verdict}: {robots['rule']}{delay}{maps} (answer {robots['status']} at {when(robots['fetched_at'], now)})"


def _queue(facts: Facts, now: float) -> Iterator[str]:
    queue = facts["queue"]
    if queue is None:
        return
    if queue["not_before"]:  # out of line: who is ahead of it there says nothing of its turn
        yield _line("queue", f"priority {queue['priority']}, put back until {when(queue['not_before'], now)}")
        return
    ahead = f"more than {queue['ahead']:,}" if queue["more"] else f"{queue['ahead']:,}"
    behind = f"behind {ahead} URL{'' if ahead == '1' else 's'}" if queue["ahead"] else "the next"
    yield _line("queue", f"priority {queue['priority']}, {behind} of its host")


def _answers(facts: Facts, now: float) -> Iterator[str]:
    answers = facts.get("answers") or {}
    title = "answers"
    for fetch in answers.get("fetches", ()):
        yield _line(title, f"{when(fetch['at'], now)}: {_answer(fetch)}, {fetch['latency_ms']} ms")
        title = ""
    if title and facts["state"] in ("fetched", "redirected", "failed"):
        yield _line(title, _without_history(facts, answers))
    if facts.get("attempts"):
        yield _line("attempts", f"{facts['attempts']} failed")


def _answer(fetch: Facts) -> str:
    """A status says it all of an answer that was none we wanted."""
    if fetch.get("kind") == "hop":
        return "no end of it yet (a redirect followed, or a connection that had gone stale)"
    word, _, reason = str(fetch["outcome"]).partition(":")
    return ", ".join(str(part) for part in (fetch["status"] or "no answer", word, reason) if part and part != "http")


def _without_history(facts: Facts, answers: Facts) -> str:
    """Of a release that kept none, of a URL that was settled without a request, or of one not stored yet."""
    if facts.get("reason") in ("host_dead", "robots_unavailable"):
        return "none: it was never requested"
    if not answers:
        return "not in the index, or not yet"
    status = answers["http_status"] or "no answer"
    return f"{answers['timestamp']}: {status}, {answers['kind']}, {answers['fetch_latency_ms']} ms"


def _host(host: Facts | None) -> Iterator[str]:
    if host is None:
        yield _line("host", "nothing of this host is known")
        return
    health = "" if host["breaker"] == "closed" else f", breaker {host['breaker']}"
    health += ", given up for this run" if host["given_up"] else ""
    yield _line(
        "host",
        f"{host['name']}: {host['fetched']:,} fetched, {host['queued']:,} queued, {host['in_flight']:,} in flight, "
        f"a request every {host['delay']:g} s{health}",
    )


def _next(facts: Facts, now: float) -> Iterator[str]:
    """Why nothing happens, the most telling first."""
    waits = facts["waits"]
    if waits and not facts["running"]:
        waits = [wait for wait in waits if wait["for"] not in ("stopping", "turn", "answer")]
        at = sum(wait["for"] == "budget" for wait in waits)  # that has to be raised before going on is of any use
        waits = sorted(waits, key=lambda wait: wait["for"] != "budget")
        waits.insert(at, {"for": "not_running"})
    lines = [sentence(wait, now, (facts["host"] or {}).get("name", "")) for wait in waits]
    if facts["lease"]:
        lease = facts["lease"]
        lines.append(
            f"released at {when(lease['since'], now)} as fetch {lease['fetch_id']}, attempt {lease['attempt']}"
        )
    lines.extend(_if_found_again(facts))
    if facts["state"] == "unknown" and not _is_robots(facts):
        lines.append(_if_found(facts))
        if facts["unread"] and facts["scope"]["allowed"]:
            lines.append(f"{facts['unread']:,} batches of links are not yet read: it may be in one of them")
    for number, text in enumerate(lines):
        yield _line("" if number else "next", text)


def _if_found_again(facts: Facts) -> Iterator[str]:
    """Of a URL that was refused. An owner of an older release says neither."""
    if facts["state"] == "refused" and facts.get("cap"):
        yield f"{facts['cap']}, which is spent: with more, it would be taken if found again"
    elif facts.get("if_found_again"):
        yield "the settings have changed since: it would be taken if found again"
        yield "(`headrace crawl --refresh` reads pages again that have changed, `headrace seed` names it)"


def _if_found(facts: Facts) -> str:
    """What would become of a URL that was never found."""
    if not facts["scope"]["allowed"]:
        return "links to it are turned away"
    robots, host = facts["robots"] or {}, facts["host"] or {}
    if robots.get("known") and not robots["allowed"]:
        return "it will be refused if a page links to it: robots.txt forbids it"
    given_up = host.get("given_up") or robots.get("standing") in ("unavailable", "forbidden")
    if given_up and facts["completed_run"] != facts["current_run"]:  # a run that comes after asks again
        return "it will be settled unfetched if a page links to it: its host is given up for this run"
    return "it will be queued if a page links to it"
