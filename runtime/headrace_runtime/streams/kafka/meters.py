"""What only an engine with a group protocol and a changelog can count."""

from prometheus_client import CollectorRegistry, Counter, Histogram

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)  # seconds


class KafkaMeters:
    """One per process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.rebalances = Counter(
            "headrace_rebalances", "Times a group gave its partitions out anew", ["group"], registry=registry
        )
        self.restore_seconds = Histogram(
            "headrace_restore_seconds",
            "From opening a partition's local state to its being current",
            buckets=_BUCKETS,
            registry=registry,
        )
        self.restored = Counter(
            "headrace_restored_entries", "Entries read from changelogs to bring state up to date", registry=registry
        )
