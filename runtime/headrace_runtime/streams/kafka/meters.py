"""What only an engine with a group protocol and a changelog can count."""

from typing import ClassVar
from weakref import WeakKeyDictionary

from prometheus_client import CollectorRegistry, Counter, Histogram

_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)  # seconds


class KafkaMeters:
    """One per process, found again by `of`: a start that waits opens the engine more than once."""

    _known: ClassVar["WeakKeyDictionary[CollectorRegistry, KafkaMeters]"] = WeakKeyDictionary()

    @classmethod
    def of(cls, registry: CollectorRegistry) -> "KafkaMeters":
        found = cls._known.get(registry)
        if found is None:
            found = cls._known[registry] = cls(registry)
        return found

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
