"""Which metrics a query names: read wrongly, a panel without data would pass."""

import pytest

from tests.deploy.promql import filled, names


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("up", {"up"}),
        ("sum by (service, instance) (rate(process_cpu_seconds_total[5m]))", {"process_cpu_seconds_total"}),
        ('histogram_quantile(0.99, sum by (le) (rate(a_bucket{x=~"b_c{2}"}[1m])))', {"a_bucket"}),
        ("a and on () b unless c > 0.5 * (d offset 10m)", {"a", "b", "c", "d"}),
        ('label_replace(a, "class", "$1", "code", "([1-5])..") / on (host) group_left (name) b', {"a", "b"}),
        ("topic_group:headrace_lag:max > 2 * 1024 ^ 3", {"topic_group:headrace_lag:max"}),
        ("min_over_time(a[15m]) == bool 1e9 or vector(1)", {"a"}),
        ("sum(a) by (le) # not this one", {"a"}),
        ("count without (instance) (a) > inf", {"a"}),
    ],
)
def test_names_are_found_and_nothing_else(query: str, wanted: set[str]) -> None:
    assert names(query) == wanted


def test_grafanas_variables_are_replaced() -> None:
    assert filled('rate(a{instance=~"$instance"}[$__rate_interval])') == 'rate(a{instance=~".*"}[5m])'
