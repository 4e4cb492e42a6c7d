"""`headrace explain URL`: its state and history, which rule decided, and what is next."""

import asyncio
import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from headrace.commands.options import DEFAULT_WORKSPACE, ConfigOption, SetOption, WorkspaceOption, load, start_logs
from headrace.waiting import sentence, when
from headrace.workspace import Workspace

Facts = dict[str, Any]
_SETTLED = {
    "fetched": "fetched",
    "redirected": "redirected: what it leads to is a URL of its own",
    "failed": "failed ({reason}); `headrace crawl --retry-failed` asks for it again",
    "refused": "refused ({reason}), never requested",
    "queued": "queued",
    "in_flight": "in flight",
    "unknown": "never found",
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
    state = str(facts["state"])
    yield _line("state", _SETTLED.get(state, state).format(reason=facts.get("reason") or "no reason given"))
    yield from _found(facts)
    yield _line("scope", _scope(facts["scope"]))
    yield _line("robots", _robots(facts["robots"], now))
    yield from _queue(facts)
    yield from _answers(facts, now)
    yield from _host(facts["host"])
    yield from _next(facts, now)


def _line(title: str, text: str) -> str:
    return f"  {title:<8} {text}"


def _found(facts: Facts) -> Iterator[str]:
    """While it is queued the frontier knows; later the index does."""
    answers = facts.get("answers") or {}
    found = facts["found"] or ({"referrer": answers["referrer"], "chain": []} if "referrer" in answers else None)
    if facts["state"] == "unknown":
        return
    depth = facts["depth"]
    words = [f"at depth {depth}" if depth else "a seed, or as near as one"]
    if found and found["referrer"]:
        words.append(f"on {found['referrer']}")
    yield _line("found", ", ".join(words))
    if found and found["chain"]:
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
    delay = f"; asks for {robots['crawl_delay']:g} s between requests" if robots["crawl_delay"] else ""
    count = robots.get("sitemaps", 0)
    maps = f"; names {count:,} sitemap{'' if count == 1 else 's'}" if count else ""
    return f"{verdict}: {robots['rule']}{delay}{maps} (answer {robots['status']} at {when(robots['fetched_at'], now)})"


def _queue(facts: Facts) -> Iterator[str]:
    queue = facts["queue"]
    if queue is None:
        return
    ahead = f"more than {queue['ahead']:,}" if queue["more"] else f"{queue['ahead']:,}"
    yield _line("queue", f"priority {queue['priority']}, behind {ahead} URL{'' if ahead == '1' else 's'} of its host")


def _answers(facts: Facts, now: float) -> Iterator[str]:
    answers = facts.get("answers") or {}
    title = "answers"
    for fetch in answers.get("fetches", ()):
        status = fetch.get("status") or "no answer"
        yield _line(title, f"{when(fetch['at'], now)}: {status}, {fetch['outcome']}, {fetch['latency_ms']} ms")
        title = ""
    if answers and not answers.get("fetches"):
        status = answers["http_status"] or "no answer"
        yield _line(title, f"{answers['timestamp']}: {status}, {answers['kind']}, {answers['fetch_latency_ms']} ms")
    if facts.get("attempts"):
        yield _line("attempts", f"{facts['attempts']} failed")


def _host(host: Facts | None) -> Iterator[str]:
    if host is None:
        yield _line("host", "nothing of this host is known")
        return
    health = "" if host["breaker"] == "closed" else f", breaker {host['breaker']}"
    yield _line(
        "host",
        f"{host['name']}: {host['fetched']:,} fetched, {host['queued']:,} queued, {host['in_flight']:,} in flight, "
        f"a request every {host['delay']:g} s{health}",
    )


def _next(facts: Facts, now: float) -> Iterator[str]:
    """Why nothing happens, the most telling first."""
    waits = facts["waits"]
    if waits and not facts["running"]:
        waits = [{"for": "not_running"}, *(wait for wait in waits if wait["for"] not in ("stopping", "turn"))]
    lines = [sentence(wait, now, (facts["host"] or {}).get("name", "")) for wait in waits]
    if facts["lease"]:
        lease = facts["lease"]
        lines.append(
            f"released at {when(lease['since'], now)} as fetch {lease['fetch_id']}, attempt {lease['attempt']}"
        )
    if facts["state"] == "unknown":
        allowed = facts["scope"]["allowed"]
        lines.append("it will be queued if a page links to it" if allowed else "links to it are turned away")
        if facts["unread"] and allowed:
            lines.append(f"{facts['unread']:,} batches of links are not yet read: it may be in one of them")
    for number, text in enumerate(lines):
        yield _line("" if number else "next", text)
