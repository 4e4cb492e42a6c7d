"""What the parser counts."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge

from headrace_parser.frames import ParsedReply
from headrace_runtime.tally import Counts, Spreads
from headrace_runtime.vitals import Children

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


VERDICTS = ("ok", "not_html", "unparsable", "timeout", "memory", "crashed")


class ParserMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._pages = Counts("crawler_pages_parsed", "Pages parsed.", ["verdict"], registry=registry)
        for verdict in VERDICTS:
            self._pages.labels(verdict)
        self._seconds = Spreads(
            "crawler_parse_seconds", "Time a worker spent on a page.", buckets=_SECONDS, registry=registry
        ).labels()
        self._links = Counts(
            "crawler_links_found", "Links found on pages, repeats within one left out.", registry=registry
        ).labels()
        self.workers = Gauge("crawler_parser_workers", "Parser processes ready for work.", registry=registry)
        self.restarts = Counter(
            "crawler_parser_restarts", "Parser processes started in place of one.", registry=registry
        )

    def watch(self, pids: Callable[[], Iterable[int]]) -> None:
        Children(pids, self._registry)

    def page(self, reply: ParsedReply) -> None:
        if not reply.parsed:
            return  # a 304, or nothing that could be read: no page
        self._pages.labels(reply.verdict).inc()
        self._links.inc(reply.found)
        if reply.seconds:
            self._seconds.observe(reply.seconds)
