"""A task and what became of it → what is sent: the page first, its result once the page is acknowledged."""

from collections.abc import Callable
from typing import NamedTuple

from headrace_fetcher.trip import Answer
from headrace_runtime.streams.poison import bury
from headrace_runtime.streams.seams import Record, Send
from headrace_schemas import codec
from headrace_schemas.errors import Poison
from headrace_schemas.messages import Failed, FetchedPage, FetchResult, FetchTask

GROUP = "fetcher"


class Reply(NamedTuple):
    sends: tuple[Send, ...] = ()
    later: tuple[Send, ...] = ()


class Replies:
    def __init__(self, revision: Callable[[], int]) -> None:
        """`revision`: that of `crawl.control` this process knows; every message carries it."""
        self._revision = revision

    def answer(
        self, record: Record, task: FetchTask, answer: Answer, *, now: float, waited: float = 0.0, latency: float = 0.0
    ) -> Reply:
        page, figures = answer.page, answer.figures
        result = FetchResult(
            fetch_id=task.fetch_id,
            url=task.url,
            key=task.key,
            outcome=answer.outcome,
            kind=task.kind,
            depth=task.depth,
            hop=task.hop,
            referrer=task.referrer,
            page_type=task.page_type,
            attempt=task.attempt,
            finished_at=now,
            waited=max(0.0, waited),
            latency_ms=page.latency_ms if page else round(latency * 1000),
            headers=() if isinstance(page, FetchedPage) else answer.headers,
            chain=task.chain,
            run=task.run,
            host=task.host,
            asked_at=figures.asked_at,
            delay=task.delay,
            hops=figures.hops,
            received=figures.received,
            protocol=figures.protocol,
            phases=figures.phases,
        )
        revision = self._revision()
        later = (Send("fetch.results", record.partition, codec.encode(result, revision), record.key),)
        if page is None:
            return Reply((), later)
        return Reply((Send("pages.fetched", record.partition, codec.encode(page, revision), record.key),), later)

    def poison(self, record: Record, why: Poison | str, now: float) -> Reply:
        """The record key is the fetch id, so even a task nobody can read settles its URL."""
        dead = bury(record, GROUP, why, now)
        if len(record.key) != 8:
            return Reply((dead,))
        result = FetchResult(
            fetch_id=int.from_bytes(record.key, "big"),
            url="",
            key=b"",
            outcome=Failed("poison", detail=str(why)[:200]),
            finished_at=now,
        )
        return Reply(
            (dead,), (Send("fetch.results", record.partition, codec.encode(result, self._revision()), record.key),)
        )
