"""The busiest hosts as a metric: few series, however many hosts."""

from prometheus_client import CollectorRegistry

from headrace_fetcher.busiest import KEPT, SHOWN, Busiest


def shown(registry: CollectorRegistry) -> dict[str, float]:
    return {
        sample.labels["host"]: sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "crawler_busiest_host_pages_total"
    }


def test_those_with_most_pages_are_shown_with_all_their_pages() -> None:
    registry = CollectorRegistry()
    busiest = Busiest(registry)
    for number in range(100):
        for _ in range(number):
            busiest.note(f"host{number}")
    assert shown(registry) == {f"host{number}": number for number in range(100 - SHOWN, 100)}


def test_a_million_hosts_are_never_held_and_a_busy_one_is_never_lost() -> None:
    registry = CollectorRegistry()
    busiest = Busiest(registry)
    for number in range(50_000):
        busiest.note(f"host{number}")
        if number % 10 == 0:
            busiest.note("busy")
    assert shown(registry)["busy"] == 5_000
    assert len(shown(registry)) == SHOWN
    assert len(busiest._pages) <= 2 * KEPT
