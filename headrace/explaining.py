"""`headrace explain`: asks whoever knows. A running crawl over its socket, the owning frontier on Kafka over HTTP, or
the workspace itself where nobody runs; then the index, which knows what was answered."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headrace import socket
from headrace.seeding import hint
from headrace.workspace import Workspace
from headrace_schemas import codec
from headrace_schemas.errors import FatalError, HeadraceError, Unavailable, UsageError
from headrace_schemas.messages import Progress
from headrace_schemas.settings import Settings
from headrace_schemas.topics import FRONTIER, partition_key

if TYPE_CHECKING:
    from headrace.compose import Opened

_LINKS, _PARSED, _STORED = ("links.discovered", FRONTIER), ("pages.fetched", "parser"), ("pages.fetched", "storer")
_PATIENCE = 5.0  # seconds an owner has for its answer
Facts = dict[str, Any]


async def explained(settings: Settings, workspace: Workspace, url: str) -> Facts:
    from headrace_frontier.service import explainer

    try:
        found, partition = explainer(settings).find(url)
    except UsageError as error:
        raise UsageError(f"{error}{hint(url)}") from None
    if settings.kafka:
        facts = await _from_owner(settings, workspace, found.url, partition)
    else:
        workspace.must_exist()
        reply = await socket.ask_or(
            workspace.socket,
            {"do": "explain", "url": found.url},
            lambda: _from_workspace(settings, workspace, found.url),
        )
        facts = reply["explained"]
    # Its key as the crawl makes it: the settings of this command need not be those of the crawl.
    return facts | {"answers": _answers(settings, workspace.root, bytes.fromhex(facts["key"]))}


async def here(opened: "Opened", answer: Callable[[Mapping[str, str]], Facts], url: str) -> Facts:
    """By the frontier in this process."""
    return answer({"url": url}) | {"running": True, "unread": await _unread(opened)}


async def _from_workspace(settings: Settings, workspace: Workspace, url: str) -> Facts:
    """Nobody runs here: the state is ours to look at."""
    from headrace.compose import opened
    from headrace_frontier.look import Around
    from headrace_frontier.service import explainer
    from headrace_runtime.streams.seams import Peekable

    async with opened(settings, workspace, create=False) as parts:
        assert isinstance(parts.streams, Peekable)
        explaining = explainer(settings)
        found, partition = explaining.find(url)
        behind = await parts.streams.edges((_PARSED, _STORED))
        backlog = max((edge.end - edge.committed for edge in behind), default=0)
        around = Around(parts.desired.now, backlog, time.time())
        facts = explaining.explain(parts.streams.peek(FRONTIER, partition), found, around)
        return {"explained": facts | {"running": False, "unread": await _unread(parts)}}


async def _from_owner(settings: Settings, workspace: Workspace, url: str, partition: int) -> Facts:
    from headrace.compose import opened

    async with opened(settings, workspace, create=False) as parts:
        table = await parts.streams.table("crawl.progress")
        try:
            raw = table.rows.get(partition_key(partition))
        finally:
            await table.close()
        unread = await _unread(parts)
    row: Progress | None = codec.decode("crawl.progress", raw) if raw else None
    if row is None or not row.owner:
        raise FatalError(
            f"partition {partition} of this URL has no frontier that can be asked: "
            f"none has told its address in crawl.progress (is one running, with metrics.enabled?)"
        )
    return await _asked(row.owner, partition, url) | {"running": True, "unread": unread, "owner": row.owner}


async def _asked(owner: str, partition: int, url: str) -> Facts:
    import httpx

    try:
        async with httpx.AsyncClient(timeout=_PATIENCE, trust_env=False) as client:
            answer = await client.get(f"http://{owner}/explain", params={"url": url})
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        why = str(error) or type(error).__name__
        raise Unavailable(f"partition {partition}: no frontier answers at {owner} (crawl.progress): {why}") from None
    if answer.status_code == httpx.codes.BAD_REQUEST:
        raise UsageError(answer.text.strip())
    if answer.status_code != httpx.codes.OK:
        why = answer.text.strip()[:200]
        raise Unavailable(f"partition {partition}: {owner} (crawl.progress) does not explain it: {why}")
    facts: Facts = answer.json()
    return facts


async def _unread(opened: "Opened") -> int:
    """Messages with links that the frontier has not read: a URL it does not know may be in one of them."""
    return sum(edge.end - edge.committed for edge in await opened.streams.edges((_LINKS,)))


def _answers(settings: Settings, workspace: Path, key: bytes) -> Facts | None:
    """What the index knows; None: it has no row, or there is no index to read here."""
    from headrace_storer.index import open_index

    try:
        index = open_index(settings, workspace, create=False)
    except HeadraceError:  # nothing is stored yet, or the index is elsewhere: the rest can still be told
        return None
    try:
        detail = index.get(key)
        fetches = getattr(index, "fetches", None)
        history = [_fetch(row) for row in fetches(key)] if fetches is not None else []
    finally:
        index.close()
    if detail is None and not history:
        return None
    row = detail.row if detail else None
    return {
        "fetches": history,
        "kind": detail.kind if detail else "",
        **({name: getattr(row, name) for name in _ROW} if row else {}),
        "metadata": json.loads(row.metadata) if row else {},
    }


_ROW = ("timestamp", "url", "http_status", "referrer", "depth", "retries", "fetch_latency_ms")


def _fetch(row: Any) -> Facts:
    names = ("at", "url", "kind", "attempt", "status", "outcome", "latency_ms")
    return {name: getattr(row, name) for name in names if hasattr(row, name)}
