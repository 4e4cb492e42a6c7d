"""A host has one partition, the one that any Kafka client computes."""

import pytest

from headrace_schemas.urls import Partitioner, murmur2


@pytest.mark.parametrize(
    ("data", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_kafkas_own(data: bytes, signed: int) -> None:
    """The vectors of Apache Kafka's own tests, which print a signed number."""
    assert murmur2(data) == signed & 0xFFFFFFFF


def test_murmur2_is_that_of_the_kafka_client() -> None:
    from aiokafka.partitioner import murmur2 as theirs

    for length in range(40):
        data = bytes((length * 7 + n * 31) % 256 for n in range(length))
        assert murmur2(data) == theirs(data) & 0xFFFFFFFF


def test_all_origins_of_a_host_share_a_partition() -> None:
    partitioner = Partitioner(64)
    urls = ["http://example.org/", "https://example.org:8443/a", "http://example.org/b?c=//d"]
    assert {partitioner.partition(url) for url in urls} == {(murmur2(b"example.org") & 0x7FFFFFFF) % 64}


def test_by_domain_all_hosts_of_a_domain_share_a_partition() -> None:
    by_host, by_domain = Partitioner(64), Partitioner(64, "domain")
    urls = [f"http://{name}.example.co.uk/" for name in "abcdefgh"]
    assert len({by_host.partition(url) for url in urls}) > 1
    assert len({by_domain.partition(url) for url in urls}) == 1
    assert by_domain.politeness_key(urls[0]) == "example.co.uk"
    assert by_host.politeness_key(urls[0]) == "a.example.co.uk"


def test_partitions_are_spread_evenly() -> None:
    partitioner = Partitioner(16)
    counts = [0] * 16
    for n in range(16_000):
        counts[partitioner.partition(f"http://host{n}.example/")] += 1
    assert min(counts) > 800
    assert max(counts) < 1_200


def test_one_partition_is_partition_nought() -> None:
    assert Partitioner(1).partition("http://example.org/") == 0
