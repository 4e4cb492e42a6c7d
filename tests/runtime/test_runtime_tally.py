"""Our own counters, as Prometheus sees them: like those of its client."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from headrace_runtime.tally import Counts, Spreads

BUCKETS = (0.1, 0.25, 1, 10)


def exposed(registry: CollectorRegistry) -> list[str]:
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if "_created" not in line]


def test_they_are_exposed_as_those_of_the_client_are() -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    counts = Counts("seen", "What was seen.", ["kind", "place"], registry=ours)
    counter = Counter("seen", "What was seen.", ["kind", "place"], registry=theirs)
    spread = Spreads("took_seconds", "How long.", ["kind"], buckets=BUCKETS, registry=ours)
    histogram = Histogram("took_seconds", "How long.", ["kind"], buckets=BUCKETS, registry=theirs)
    for kind, place, value in (("a", "x", 1), ("a", 'y"\\', 2.5), ("b", "x", 0), ("a", "x", 7)):
        counts.labels(kind, place).inc(value)
        counter.labels(kind, place).inc(value)
    for value in (0, 0.1, 0.100001, 0.25, 3, 10, 11, 1e9):
        spread.labels("a").observe(value)
        histogram.labels("a").observe(value)
    spread.labels("b")
    histogram.labels("b")

    assert exposed(ours) == exposed(theirs)


def test_one_without_labels_is_there_at_zero_from_when_it_is_asked_for() -> None:
    registry = CollectorRegistry()
    family = Counts("seen", "What was seen.", registry=registry)
    assert registry.get_sample_value("seen_total") is None

    count = family.labels()

    assert registry.get_sample_value("seen_total") == 0
    count.inc()
    assert registry.get_sample_value("seen_total") == 1
    assert family.labels() is count


def test_a_name_is_taken_once_and_labels_are_all_given() -> None:
    registry = CollectorRegistry()
    family = Counts("seen", "What was seen.", ["kind"], registry=registry)

    with pytest.raises(ValueError, match="Duplicated"):
        Counter("seen", "Again.", registry=registry)
    with pytest.raises(ValueError, match="kind"):
        family.labels("a", "b")
