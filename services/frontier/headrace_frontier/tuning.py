"""Every number of the frontier that is not a setting, in one place."""

from msgspec import Struct

DAY = 86_400.0


class Tuning(Struct, frozen=True, kw_only=True):
    partition_window: int = 1_000
    """W_p: tasks of one partition released and not answered."""
    host_window: int = 64
    """Largest W_h."""
    lookahead: int = 32
    """Queued URLs looked past because the robots.txt of their origin is under way. Politeness keys with many origins
    (`politeness.key: domain`) go on with the others meanwhile; the price of a visit stays bounded."""
    visits: int = 500
    """Hosts visited in one unit of work: the longest the event loop is held up."""
    unfetched: int = 500
    """URLs settled without a request in one unit of work (given up, refused at release)."""
    max_hops: int = 5
    """Redirects in a row, RFC 9110 section 15.4 leaves the number to us."""
    robots_tries: int = 3
    """Requests for a robots.txt that answers 5xx, 429 or not at all, before its origin is given up for this run."""
    robots_keep: float = 30 * DAY
    """Seconds a good robots.txt may be believed while a newer one cannot be had."""
    robots_again: float = 3_600.0
    """Seconds before a newer one is asked for again in that case."""
    robots_least: float = 60.0
    """Seconds that a robots.txt is believed at the least, beside two delays of its host: until the first page may go
    and the fetcher is free for it. One that was stale before would be asked for again and again."""
    deferred_wait: float = 0.5
    """Least wait in seconds after `Deferred`: two clocks that disagree must not make a hot loop."""
    hosts_cached: int = 20_000
    """Host records kept decoded."""
    origins_cached: int = 20_000
    """Records of origins kept decoded, their rules apart."""
    robots_cached_bytes: int = 32 * 1024 * 1024
    """Bytes of compiled rules kept ready. Others are read from the state again: a millisecond for the largest."""
    judging: int = 50_000_000
    """Nanoseconds of judging by robots.txt in one unit, for links and for release each; an estimate made of the rules
    and the URLs. Links beyond it are judged when they are released."""
