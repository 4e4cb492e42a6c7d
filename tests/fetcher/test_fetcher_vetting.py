"""Which addresses may be reached."""

import pytest

from headrace_fetcher.faults import AddressRefused, TransportFault
from headrace_fetcher.resolver import Resolver
from headrace_fetcher.vetting import Vetting
from headrace_runtime.clock import SystemClock
from headrace_schemas.errors import UsageError

PUBLIC = ["93.184.216.34", "8.8.8.8", "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::808:808", "::ffff:8.8.8.8"]

NOT_PUBLIC = {
    "loopback": ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1"],
    "private": ["10.0.0.1", "172.16.5.5", "172.31.255.255", "192.168.1.1", "fd12:3456::1", "fc00::1"],
    "link-local and metadata": ["169.254.169.254", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "100.100.100.200"],
    "a platform's own": ["168.63.129.16", "192.0.0.192"],
    "shared (CGNAT)": ["100.64.0.1", "100.127.255.255"],
    "multicast": ["224.0.0.1", "239.255.255.255", "ff02::1", "ff0e::1"],
    "unspecified": ["0.0.0.0", "::", "0.1.2.3"],
    "reserved": ["240.0.0.1", "255.255.255.255", "::7f00:1", "::8.8.8.8", "4000::1", "100::1"],
    "documentation": ["192.0.2.1", "198.51.100.7", "203.0.113.9", "2001:db8::1", "3fff::1"],
    "benchmarks and relays": ["198.18.0.1", "192.88.99.1"],
    "carrying a private one": ["64:ff9b::10.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a00:1::1"],
    "tunnels": ["2001:0:53aa:64c:0:1:2:3", "64:ff9b:1::1"],
    "no address at all": ["", "localhost", "1.2.3", "127.1", "0x7f000001", "1.2.3.4.5", "a" * 500],
}


@pytest.mark.parametrize("address", PUBLIC)
def test_public_unicast_is_allowed(address: str) -> None:
    Vetting().check(address)


@pytest.mark.parametrize(("kind", "address"), [(kind, one) for kind, many in NOT_PUBLIC.items() for one in many])
def test_everything_else_is_refused(kind: str, address: str) -> None:
    with pytest.raises(AddressRefused) as refused:
        Vetting().check(address)
    assert len(str(refused.value)) < 200


def test_a_refusal_says_where_a_disguised_address_leads() -> None:
    with pytest.raises(AddressRefused, match=r"64:ff9b::a00:1 leads to 10\.0\.0\.1, which is not public"):
        Vetting().check("64:ff9b::a00:1")


def test_ranges_can_be_opened_and_only_they() -> None:
    vetting = Vetting(["127.0.0.0/8", "fd00::/8", "10.1.2.3"])
    for address in ("127.0.0.1", "::ffff:127.9.9.9", "fd12::1", "10.1.2.3"):
        vetting.check(address)
    for address in ("10.1.2.4", "::1", "169.254.169.254"):
        with pytest.raises(AddressRefused):
            vetting.check(address)


def test_a_range_that_is_none_is_an_error_of_usage() -> None:
    with pytest.raises(UsageError, match=r"fetch\.allow_private has 'home'"):
        Vetting(["home"])


async def test_a_name_is_judged_by_its_addresses() -> None:
    resolver = Resolver(Vetting(), SystemClock())
    with pytest.raises(AddressRefused, match="localhost"):
        await resolver.addresses("localhost")
    await resolver.close()


async def test_a_name_no_one_could_own_is_a_failure_of_the_name() -> None:
    resolver = Resolver(Vetting(), SystemClock())
    for name in ("x" * 70 + ".invalid", "a..b"):
        with pytest.raises(TransportFault) as fault:
            await resolver.addresses(name)
        assert fault.value.reason == "dns"
    await resolver.close()


async def test_a_name_is_looked_up_once_within_its_time() -> None:
    resolver = Resolver(Vetting(["127.0.0.0/8", "::1"]), SystemClock())
    first = await resolver.addresses("localhost")
    assert "127.0.0.1" in first or "::1" in first
    known = dict(resolver._known)
    assert await resolver.addresses("localhost") == first
    assert dict(resolver._known) == known
    await resolver.close()
