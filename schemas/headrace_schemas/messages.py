"""Every message of the protocol. Nouns of the flow; frozen; evolved only by appending fields with defaults.

Small hot messages are arrays on the wire, `pages.fetched` is a map (it is read years later by a backfill). Times are
seconds since the epoch (float), durations are seconds unless a name says otherwise, keys are the 16 bytes of
`urls.Canonicaliser.key`.

`gc=False`: values cannot form cycles, and the garbage collector, looking for some among a crawl's many, took 30 % of
the frontier's time.
"""

from enum import IntEnum
from typing import Literal

from msgspec import Struct

TaskKind = Literal["page", "robots", "sitemap"]
LinkSource = Literal["seed", "page", "redirect", "refresh", "retry"]
Mode = Literal["running", "paused", "stopping"]


class State(IntEnum):
    """The one state a known URL is in; `discovered` is the sum over all of them, always."""

    QUEUED = 1
    IN_FLIGHT = 2
    FETCHED = 3
    REDIRECTED = 4
    FAILED = 5
    REFUSED = 6


# ---- links.discovered ----------------------------------------------------------------------------


class Link(Struct, frozen=True, gc=False, array_like=True):
    """One URL found somewhere. The producer computed both forms with `urls.Canonicaliser`."""

    url: str
    """As found: absolute, WHATWG-serialised, no fragment. What is fetched and shown."""
    key: bytes
    """Hash of the canonical form: what dedupe compares."""
    depth: int
    """Links between a seed and this URL; a seed has 0."""
    referrer: str = ""
    hop: int = 0
    """Redirects followed to get here, at most 5."""
    chain: tuple[str, ...] = ()
    """The URLs of those redirects, first one first."""
    again: int = 0
    """Run id under which a settled URL is to be queued once more (refresh, retry); 0: never."""
    etag: str = ""
    last_modified: str = ""


class DiscoveredLinks(Struct, frozen=True, gc=False, array_like=True, tag="links"):
    """Links, often of many pages, to hosts of ONE partition."""

    links: tuple[Link, ...]
    source: LinkSource = "page"
    run: int = 0
    rejected: dict[str, int] = {}
    """Links of the same pages that nobody could fetch (a scheme, user names, a bad port, too long), by reason."""


# ---- urls.to_fetch -------------------------------------------------------------------------------


class FetchTask(Struct, frozen=True, gc=False, array_like=True, tag="task"):
    """One request the fetcher owes. Its record key is `fetch_id`, so that even an undecodable task can be settled."""

    fetch_id: int
    """Number of this release within its partition: the version of everything that comes of it."""
    url: str
    key: bytes
    host: str
    """Politeness key: host name without port (or registrable domain, by setting)."""
    delay: float
    """Seconds owed between the starts of two requests to `host`."""
    valid_until: float
    """End of the robots verdict; past it the answer is `Deferred`."""
    kind: TaskKind = "page"
    depth: int = 0
    hop: int = 0
    referrer: str = ""
    attempt: int = 1
    released_at: float = 0.0
    etag: str = ""
    last_modified: str = ""
    page_type: str = "page"
    chain: tuple[str, ...] = ()
    run: int = 0
    connections: int = 1
    """Requests to `host` that may be under way at once; more than one only where a setting names the host."""
    max_bytes: int = 0
    """Bytes of body that are left in a budget; 0: only the fetcher's own cap counts."""
    store: bool = True
    """False: its links are followed, its body is not kept."""


# ---- pages.fetched -------------------------------------------------------------------------------


class FetchedPage(Struct, frozen=True, gc=False, tag="page"):
    """A page that answered 2xx with a wanted body. Holds all that parser, storer and a replay need."""

    fetch_id: int
    url: str
    key: bytes
    status: int
    fetched_at: float
    body: bytes
    """zstd frame of the body as served, content encodings undone."""
    sha256: str
    """Hex digest of the body before zstd."""
    size: int
    """Bytes of the body before zstd."""
    headers: tuple[tuple[str, str], ...] = ()
    """Response headers, lower-case names, bounded."""
    content_type: str = ""
    """Media type without parameters, lower-case."""
    charset: str = ""
    """From the Content-Type header; empty if it names none."""
    etag: str = ""
    last_modified: str = ""
    depth: int = 0
    referrer: str = ""
    page_type: str = "page"
    latency_ms: int = 0
    attempt: int = 1
    proxy_id: str = ""
    protocol: str = ""
    chain: tuple[str, ...] = ()
    run: int = 0
    store: bool = True
    """False: only its links are wanted. The row has no body."""


class NotModified(Struct, frozen=True, gc=False, tag="not_modified"):
    """304: what is stored still holds."""

    fetch_id: int
    url: str
    key: bytes
    fetched_at: float
    etag: str = ""
    last_modified: str = ""
    latency_ms: int = 0
    attempt: int = 1
    depth: int = 0
    referrer: str = ""
    page_type: str = "page"
    run: int = 0


# ---- fetch.results: a closed union of outcomes ---------------------------------------------------


class Fetched(Struct, frozen=True, gc=False, array_like=True, tag="fetched"):
    """2xx or 304; the page itself went to `pages.fetched` and was acknowledged before this was sent."""

    status: int
    size: int = 0
    sha256: str = ""
    """Empty for 304."""


class Redirected(Struct, frozen=True, gc=False, array_like=True, tag="redirected"):
    """3xx with a usable Location, absolute and WHATWG-serialised, not followed."""

    status: int
    to: str
    key: bytes
    """Canonical key of `to`."""


class Failed(Struct, frozen=True, gc=False, array_like=True, tag="failed"):
    """No page came of it. `reason` is a word from `FAILURES`; the frontier decides whether to try again."""

    reason: str
    status: int = 0
    """HTTP status, 0 if there was no answer."""
    retriable: bool = False
    retry_after: float = 0.0
    """Seconds the server asked to wait; 0: it did not say."""
    detail: str = ""
    """For people: one line, bounded."""
    size: int = 0

    @property
    def is_fault(self) -> bool:
        """Whether it says something about the host rather than about the URL."""
        return self.reason in HOST_FAULTS or self.status >= 500

    @property
    def is_refusal(self) -> bool:
        """Whether the host may be telling us to go away."""
        return self.status in (403, 429)


class Refused(Struct, frozen=True, gc=False, array_like=True, tag="refused"):
    """Never requested: the address is not allowed."""

    reason: str
    detail: str = ""


class Deferred(Struct, frozen=True, gc=False, array_like=True, tag="deferred"):
    """Not now, through no fault of the URL: spends no attempt. `reason`: stale | wait | exhausted (no connection can be
    opened) | paused | shutdown."""

    not_before: float
    reason: str


class Robots(Struct, frozen=True, gc=False, array_like=True, tag="robots"):
    """The answer to a robots task, after its own redirects. 4xx but 429 comes with empty text: all is allowed."""

    status: int
    text: bytes = b""
    """At most 500 KiB, as served."""


Outcome = Fetched | Redirected | Failed | Refused | Deferred | Robots

FAILURES = {
    "http": "the server answered with an error status",
    "timeout": "no complete answer within the deadline",
    "connect": "no connection could be made",
    "dns": "the name does not resolve",
    "tls": "the certificate or the TLS handshake was refused",
    "protocol": "what the server sent is not HTTP, or broke off",
    "too_large": "the body is larger than the cap",
    "over_budget": "the body is larger than what is left of its host's bytes",
    "too_slow": "the body came slower than the least rate",
    "headers": "more or longer headers than are read",
    "decode": "the content encoding is broken or unknown",
    "not_html": "the media type is not wanted",
    "bad_redirect": "a redirect without a usable Location",
    "too_many_redirects": "more than five redirects in a row",
    "host_dead": "the host was given up for this run",
    "robots_unavailable": "robots.txt could not be had, so nothing of this host may be fetched",
    "poison": "the task could not be read",
    "crashed": "fetching it raised an unexpected error",
}


HOST_FAULTS = frozenset({"connect", "dns", "tls", "timeout", "protocol"})


class Phases(Struct, frozen=True, gc=False, array_like=True):
    """Where the time of an attempt went, in milliseconds."""

    connect: int = -1
    """Name, TCP and TLS; 0 on a kept connection, -1 where the client cannot tell it from `first_byte`."""
    first_byte: int = 0
    """From there to the headers of the answer."""
    body: int = 0
    """From the headers to the last byte."""


class FetchResult(Struct, frozen=True, gc=False, array_like=True, tag="result"):
    """What became of one task."""

    fetch_id: int
    url: str
    key: bytes
    outcome: Outcome
    kind: TaskKind = "page"
    depth: int = 0
    hop: int = 0
    referrer: str = ""
    page_type: str = "page"
    attempt: int = 1
    finished_at: float = 0.0
    waited: float = 0.0
    """Seconds the task lay in the fetcher for its host's turn: not part of the pipeline's own latency."""
    latency_ms: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    chain: tuple[str, ...] = ()
    run: int = 0
    host: str = ""
    """The politeness key it was asked under."""
    asked_at: float = 0.0
    """When the (last) request was on the wire; 0: nothing was sent."""
    delay: float = 0.0
    """Seconds that were owed since the request to `host` before it."""
    hops: tuple[tuple[str, float], ...] = ()
    """Requests of the same attempt before that one (a robots.txt's redirects): host, and when."""
    received: int = 0
    """Bytes of body over the wire."""
    protocol: str = ""
    proxy_id: str = ""
    phases: Phases = Phases()

    @property
    def status(self) -> int:
        """HTTP status; 0 if there was no answer."""
        return getattr(self.outcome, "status", 0)

    @property
    def status_class(self) -> str:
        """2xx … 5xx, or `none` if there was no answer."""
        return f"{self.status // 100}xx" if self.status else "none"


# ---- pages.parsed --------------------------------------------------------------------------------


class ParsedPage(Struct, frozen=True, gc=False, tag="parsed"):
    """What the page says, as a pure function of its stored bytes."""

    fetch_id: int
    url: str
    key: bytes
    verdict: str
    """ok | not_html | unparsable | timeout | crashed | memory"""
    title: str = ""
    description: str = ""
    text: str = ""
    """Visible text, capped. Empty where it is packed: ask `texts.text_of`."""
    lang: str = ""
    encoding: str = ""
    """The one the page was decoded with."""
    text_sha256: str = ""
    outlinks: tuple[str, ...] = ()
    """Absolute URLs found, capped, as found, in page order without repeats."""
    canonical_url: str = ""
    """From `<link rel=canonical>`, absolute; information only."""
    nofollow: bool = False
    noindex: bool = False
    parsed_at: float = 0.0
    items: tuple[bytes, ...] = ()
    packed_text: bytes = b""
    """`text` as a zstd frame of its UTF-8. It is the bulk of a message that is written to the log and to the index."""


# ---- frontier.budget, crawl.progress, crawl.control, dead.letters --------------------------------


class BudgetRequest(Struct, frozen=True, gc=False, array_like=True, tag="request"):
    """A partition with something due asks the pool (partition 0) for credits."""

    partition: int
    number: int
    """Grows with each request of this partition; the grant repeats it."""


class BudgetGrant(Struct, frozen=True, gc=False, array_like=True, tag="grant"):
    partition: int
    number: int
    credits: int
    """0: the pool is spent."""


class BudgetReturn(Struct, frozen=True, gc=False, array_like=True, tag="return"):
    partition: int
    credits: int


BudgetMessage = BudgetRequest | BudgetGrant | BudgetReturn


class Progress(Struct, frozen=True, gc=False, tag="progress"):
    """One partition's counters, written in the very commit that changes them. Key: the partition number."""

    partition: int
    queued: int = 0
    in_flight: int = 0
    fetched: int = 0
    redirected: int = 0
    failed: int = 0
    refused: int = 0
    tasks_in_flight: int = 0
    """robots.txt and sitemap tasks released and not answered: they hold up completion."""
    tasks_queued: int = 0
    """robots.txt and sitemap tasks not yet released."""
    behind_budget: int = 0
    """Of `queued`: those that wait for nothing but a spent budget."""
    budget_held: int = 0
    """Credits held or reserved here and not spent."""
    rejected: dict[str, int] = {}
    """Links turned away by static policy, by reason; not in `discovered`."""
    refused_by: dict[str, int] = {}
    failed_by: dict[str, int] = {}
    owner: str = ""
    """Address of the owning process's HTTP endpoint."""
    revision: int = 0
    """Revision of `crawl.control` judged by."""
    bytes: int = 0
    next_due: float = 0.0
    """When the earliest waiting host may be asked again; 0: nothing waits."""
    busiest: tuple[tuple[str, int], ...] = ()
    """Hosts with the longest queues, a few."""
    next_host: str = ""
    """The host that `next_due` is of."""
    next_why: str = ""
    """What it waits for: breaker | retry_after | robots | retry; empty: only its turn."""
    needing: int = 0
    """Of `queued`: those that need a credit of `max_pages`."""
    pool_spent: bool = False
    """Of the partition that keeps the pool: it has no credit left."""

    @property
    def discovered(self) -> int:
        return self.queued + self.in_flight + self.fetched + self.redirected + self.failed + self.refused


class CrawlSettings(Struct, frozen=True, gc=False):
    """The crawl-wide settings; `settings.py` says what each means."""

    scope_mode: Literal["host", "domain", "all"] = "domain"
    scope_roots: tuple[str, ...] = ()
    """Hosts or registrable domains of the seeds, by mode; unused with `all`."""
    max_pages: int = 0
    """0: no limit."""
    max_depth: int = 10
    delay: float = 1.0
    agent: str = "headrace"
    """Product token that robots.txt groups are matched against."""
    max_backlog: int = 2000
    scope_hosts: tuple[str, ...] = ()
    scope_domains: tuple[str, ...] = ()
    scope_deny_hosts: tuple[str, ...] = ()
    scope_allow: tuple[str, ...] = ()
    scope_deny: tuple[str, ...] = ()
    page_types: tuple[str, ...] = ()
    follow_only: tuple[str, ...] = ()
    group: str = ""
    low_priority: tuple[str, ...] = ()
    host_pages: int = 0
    host_bytes: int = 0
    group_pages: tuple[str, ...] = ()
    polite_hosts: tuple[str, ...] = ()
    """`politeness.hosts`."""
    max_body: int = 10 * 1024 * 1024
    """`fetch.max_bytes`: what a page may cost of a budget of bytes."""
    seed_hosts: tuple[str, ...] = ()
    """Hosts of all seeds so far: what the roots of another mode are made of. Empty in a crawl of an older release."""


class Control(Struct, frozen=True, gc=False, tag="control"):
    """The desired state of the crawl. Key: b"crawl". Never a command."""

    revision: int
    settings: CrawlSettings
    mode: Mode = "running"
    run: int = 1
    completed_run: int = 0
    """The last run that was proved complete."""
    seeded_run: int = 0
    """The last run whose seeds, refresh and retry links were all acknowledged."""


class Layout(Struct, frozen=True, gc=False, tag="layout"):
    """What is fixed for the life of a workspace. Key: b"layout"."""

    partitions: int
    politeness_key: Literal["host", "domain"] = "host"
    canonicaliser: str = ""
    """Fingerprint of the canonicaliser's settings."""
    suffix_list: str = ""
    """Version of the public suffix list, where `politeness_key` or scope depend on it."""
    format: int = 1


class DeadLetter(Struct, frozen=True, gc=False, tag="dead"):
    """A message that could not be handled: the original bytes, where from, why."""

    topic: str
    partition: int
    offset: int
    key: bytes
    value: bytes
    group: str
    reason: str
    at: float
