"""Every setting, with its unit and default. `headrace_runtime.config` reads them (file < environment < flags).

A field's docstring is its help text: `headrace configure` and `headrace config show` print it.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from headrace_schemas.urls import CanonicalRules

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Seconds = Annotated[float, Meta(ge=0)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
MiB = 1024 * 1024


class _Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class ScopeSettings(_Section, frozen=True):
    mode: Literal["", "host", "domain", "all"] = ""
    """Which links are followed: the seeds' hosts, their registrable domains, or any; empty: as the crawl was begun (a
    new one: domain)."""
    hosts: tuple[str, ...] = ()
    """Hosts that belong to the crawl beside the seeds' own."""
    domains: tuple[str, ...] = ()
    """Registrable domains that do, with all their subdomains."""
    deny_hosts: tuple[str, ...] = ()
    """Hosts that do not, with all their subdomains, whatever the settings above say."""
    allow: tuple[str, ...] = ()
    """Patterns (RE2, searched in the URL), one of which a URL must match; none: every URL in scope."""
    deny: tuple[str, ...] = ()
    """Patterns none of which a URL may match."""
    page_types: tuple[str, ...] = ()
    """NAME=PATTERN; the first that matches names the type of a page, `page` if none does."""
    follow_only: tuple[str, ...] = ()
    """Page types whose links are followed and whose bodies are not stored."""
    group: str = ""
    """Pattern whose captures name the group a URL belongs to (an owner and repository, say): `limits.group_pages`."""
    low_priority: tuple[str, ...] = (
        r"[?&](page|pg|paged|offset|start|skip|cursor)=",
        r"/page/?[0-9]+(/|$)",
        r"/(archive|archives|tag|tags|category|categories|calendar)(/|$)",
        r"/(19|20)[0-9]{2}/([01]?[0-9]/)?([0-3]?[0-9]/)?$",
    )
    """Patterns of pages that list other pages (pagination, archives): asked for after the rest."""


class PolitenessSettings(_Section, frozen=True):
    delay: Annotated[float, Meta(ge=0, le=3600)] = 1.0
    """Seconds between the starts of two requests to one host; robots.txt may ask for more."""
    key: Literal["host", "domain"] = "host"
    """What shares a clock, a partition and the caps of a host. Fixed when the workspace is made."""
    hosts: tuple[str, ...] = ()
    """Hosts with a delay of their own, or more than one request at once: `intranet.example delay=0.1 connections=4`."""


class LimitSettings(_Section, frozen=True):
    max_pages: Count = 0
    """Pages fetched over the life of the workspace, met exactly; 0: no limit."""
    max_depth: Count = 10
    """Links between a seed and the furthest page taken."""
    host_pages: Count = 0
    """Pages fetched of one host, met exactly; 0: no limit. What is left over is refused (cap)."""
    host_bytes: Count = 0
    """Bytes of bodies of one host, decompressed, never passed; 0: no limit."""
    group_pages: tuple[str, ...] = ()
    """TYPE=N: pages of that type in one group (`scope.group`), met exactly; `*=N`: of all types together."""
    max_backlog: Positive = 2_000
    """Fetched pages not yet parsed and stored, above which no URL is released."""
    concurrency: Positive = 128
    """Requests under way at once in one fetcher process."""
    rate: Annotated[float, Meta(ge=0)] = 0.0
    """Requests started per second in one fetcher process; 0: no limit."""


class FetchSettings(_Section, frozen=True):
    allow_private: tuple[str, ...] = ()
    """Address ranges (CIDR) that may be reached although they are not public."""
    ports: tuple[Port, ...] = ()
    """Ports beside 80 and 443 that may be reached; any port is open at addresses opened by `allow_private`."""
    client: Literal["httptools", "pyreqwest", "httpx"] = "httptools"
    """The HTTP client behind httpx's transport seam: connections of our own, Rust's (HTTP/2), or httpx's own."""
    http2: bool = True
    """Whether HTTP/2 is spoken where a server offers it over TLS (pyreqwest only)."""
    connect_timeout: Seconds = 5.0
    """Seconds to look a name up, and again to make a connection, TLS included."""
    read_timeout: Seconds = 10.0
    """Seconds without a byte."""
    total_timeout: Annotated[float, Meta(gt=0)] = 30.0
    """Seconds for a whole answer."""
    min_rate: Count = 100
    """Bytes a second that a body must come with at the least, once five seconds have passed; 0: any."""
    max_memory: Positive = 128 * MiB
    """Bytes of bodies being read at once in one process, and of what their decoders keep: more wait, those that would
    pass it alone are cut."""
    max_bytes: Positive = 10 * MiB
    """Bytes of a body after decompression; a larger one fails as too_large."""
    agent: Annotated[str, Meta(pattern=r"^[A-Za-z_-]+$")] = "headrace"
    """Product token: first word of the User-Agent, and the name robots.txt groups are matched against."""
    zstd_level: Annotated[int, Meta(ge=1, le=19)] = 3
    """zstd level of stored bodies."""


class RetrySettings(_Section, frozen=True):
    attempts: Positive = 3
    """Attempts in all for a URL that fails in a way that may pass (5xx, 429, network)."""
    base: Seconds = 0.5
    """Seconds before the second attempt; doubles, with jitter."""
    cap: Seconds = 8.0
    """Longest wait of that kind, in seconds."""
    max_retry_after: Seconds = 3_600.0
    """Longest Retry-After that is honoured, in seconds."""


class BreakerSettings(_Section, frozen=True):
    failures: Positive = 5
    """Failures of a host in a row (5xx, network) after which it is left alone."""
    refusals: Positive = 5
    """Answers of 403 or 429 in a row that do the same."""
    cooldown: Seconds = 60.0
    """Seconds it is left alone then; doubles each time, with jitter."""
    successes: Positive = 2
    """Pages that must answer, one after the other, before it is trusted again."""
    opens: Positive = 2
    """Times this happens without a success between, after which the host is given up for this run."""


class RobotsSettings(_Section, frozen=True):
    ttl: Seconds = 86_400.0
    """Seconds a robots.txt is believed; two delays of its host and a minute at the least."""
    max_delay: Seconds = 300.0
    """Longest Crawl-delay that is honoured, in seconds."""
    retry: Seconds = 4.0
    """Seconds before a robots.txt that a server did not give is asked for again, then twice as long; with jitter."""


class StreamSettings(_Section, frozen=True):
    url: str = "embedded:"
    """Where the topics are: `embedded:` (in the workspace) or `kafka://host:port[,host:port]`."""
    prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]*$")] = ""
    """Put before every topic, group and transactional id: several crawls on one broker."""
    partitions: Count = 0
    """Partitions of each topic, fixed when the workspace is made; 0: 1 embedded, 64 on Kafka."""
    replication: Positive = 1
    """Copies of each topic on Kafka."""
    sync: Literal["none", "group", "always"] = "group"
    """What survives a power cut (a killed process loses nothing either way). none: what the system wrote by itself;
    group: all but the last tenth of a second; always: every commit, at a price."""
    keep: Seconds = 0.0
    """Seconds a record is kept once every service has read it, for `replay --topic`; 0: none embedded, on Kafka what
    docs/topics.md says."""
    janitor_interval: Seconds = 600.0
    """Kafka only: seconds between two deletions of what was read and is old enough; 0: nothing is deleted."""
    session_timeout: Annotated[float, Meta(ge=1)] = 30.0
    """Kafka only: seconds without a heartbeat after which a process has lost its partitions."""
    instance: str = ""
    """Kafka only: name of this process within its service, and of its state folder; empty: the first free number."""


class IndexSettings(_Section, frozen=True):
    url: str = ""
    """`sqlite:///path` or `postgresql://…`; empty: `index.sqlite` in the workspace."""


class ParserSettings(_Section, frozen=True):
    workers: Count = 0
    """Parser processes; 0: one for each core, at most four."""
    deadline: Annotated[float, Meta(gt=0)] = 10.0
    """Seconds after which a page that is still being parsed costs its worker."""
    memory: Positive = 1024
    """MiB of address space a worker may grow by."""
    max_links: Positive = 1_000
    """Links taken of one page."""
    max_text: Positive = 100_000
    """Characters of text kept of one page."""


class LogSettings(_Section, frozen=True):
    format: Literal["auto", "human", "json"] = "auto"
    """auto: human on a terminal and for `crawl`, JSON for `run`."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is worth a line; `crawl` shows warnings only unless this is set."""


class MetricSettings(_Section, frozen=True):
    host: str = "127.0.0.1"
    """Address that /metrics, /healthz and /readyz listen on."""
    port: Port = 0
    """Their port; 0: any free one, which is logged."""
    enabled: bool = True
    """Whether to listen at all."""
    csv: bool = False
    """Whether to write them to `logs/metrics-<run>.csv` in the workspace, too (a service of a fleet: with its slot)."""
    csv_interval: Annotated[float, Meta(gt=0)] = 10.0
    """Seconds between two writes of that file; at 10 s it grows by some 100 MB a day."""


class Settings(_Section, frozen=True):
    contact: str = ""
    """URL or e-mail address for the User-Agent; needed to crawl public hosts."""
    seeds: tuple[str, ...] = ()
    """Where a crawl starts, beside those on the command line."""
    scope: ScopeSettings = ScopeSettings()
    politeness: PolitenessSettings = PolitenessSettings()
    limits: LimitSettings = LimitSettings()
    canonical: CanonicalRules = CanonicalRules()
    fetch: FetchSettings = FetchSettings()
    retry: RetrySettings = RetrySettings()
    breaker: BreakerSettings = BreakerSettings()
    robots: RobotsSettings = RobotsSettings()
    streams: StreamSettings = StreamSettings()
    index: IndexSettings = IndexSettings()
    parser: ParserSettings = ParserSettings()
    log: LogSettings = LogSettings()
    metrics: MetricSettings = MetricSettings()
    shutdown_timeout: Seconds = 10.0
    """Seconds a stopping process may take to finish what it is doing."""

    @property
    def kafka(self) -> bool:
        return self.streams.url.startswith("kafka://")

    @property
    def partitions(self) -> int:
        return self.streams.partitions or (64 if self.kafka else 1)
