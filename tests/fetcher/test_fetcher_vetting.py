"""Which addresses may be reached."""

import pytest

from headrace_fetcher.faults import AddressRefused, TransportFault
from headrace_fetcher.lookups import Lookups
from headrace_fetcher.resolver import Resolver
from headrace_fetcher.vetting import Vetting
from headrace_runtime.clock import SystemClock
from headrace_schemas.errors import UsageError
from headrace_schemas.messages import Fetched, Refused
from headrace_schemas.urls import as_found
from tests.fetcher.hostile import hostile_server, raw
from tests.fetcher.rig import CLIENTS, rig

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
    "carrying a private one": [
        "::ffff:169.254.169.254",
        "2002:a9fe:a9fe::1",
        "64:ff9b::10.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::",
        "2002:a00:1::1",
    ],
    "tunnels": ["2001:0:53aa:64c:0:1:2:3", "64:ff9b:1::1", "64:ff9b:1::808:808", "2001::7f00:1"],
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
    resolver = Resolver(Vetting(), SystemClock(), Lookups(timeout=5.0, patience=5.0))
    with pytest.raises(AddressRefused, match="localhost"):
        await resolver.addresses("localhost", 80)
    await resolver.close()


async def test_a_name_no_one_could_own_is_a_failure_of_the_name() -> None:
    resolver = Resolver(Vetting(), SystemClock(), Lookups(timeout=5.0, patience=5.0))
    for name in ("x" * 70 + ".invalid", "a..b"):
        with pytest.raises(TransportFault) as fault:
            await resolver.addresses(name, 80)
        assert fault.value.reason == "dns"
    await resolver.close()


async def test_a_name_is_looked_up_once_within_its_time() -> None:
    resolver = Resolver(Vetting(["127.0.0.0/8", "::1"]), SystemClock(), Lookups(timeout=5.0, patience=5.0))
    first = await resolver.addresses("localhost", 80)
    assert "127.0.0.1" in first or "::1" in first
    known = dict(resolver._known)
    assert await resolver.addresses("localhost", 80) == first
    assert dict(resolver._known) == known
    await resolver.close()


# ---- ports ----


def test_only_the_ports_of_the_web_are_open_and_those_a_setting_adds() -> None:
    for port in (80, 443):
        Vetting().check("8.8.8.8", port)
    with pytest.raises(AddressRefused, match=r"port 6379 of 8\.8\.8\.8"):
        Vetting().check("8.8.8.8", 6379)
    Vetting(ports=[8080]).check("8.8.8.8", 8080)


def test_any_port_is_open_where_a_range_was_opened_by_name() -> None:
    vetting = Vetting(["127.0.0.0/8"])
    vetting.check("127.0.0.1", 6379)
    with pytest.raises(AddressRefused):
        vetting.check("8.8.8.8", 6379)


# ---- from a link to a connection ----

DISGUISED = [
    *("http://127.1/", "http://0x7f000001/", "http://0177.0.0.1/", "http://2130706433/", "http://0x7f.1/", "http://0/"),
    *("http://[::ffff:7f00:1]/", "http://[::1]/", "http://[::127.0.0.1]/", "http://127.0.0.1./", "http://%31%32%37.1/"),
    *("http://169.254.169.254/latest/", "http://[fd00:ec2::254]/", "http://100.100.100.200/", "http://168.63.129.16/"),
    *("http://[64:ff9b::a9fe:a9fe]/", "http://[64:ff9b:1::1]/", "http://[2002:7f00:1::]/", "http://①②⑦.0.0.1/"),
]


@pytest.mark.parametrize("client", CLIENTS)
async def test_no_spelling_of_an_address_gets_past(client: str) -> None:
    async with rig(client, allow=()) as fetcher:
        for link in DISGUISED:
            outcome = (await fetcher.fetch(as_found(link))).outcome
            assert isinstance(outcome, Refused), (link, outcome)
            assert not fetcher.trip.asked


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_closed_port_of_a_public_address_is_refused_without_a_packet(client: str) -> None:
    async with rig(client, allow=()) as fetcher:
        outcome = (await fetcher.fetch("http://8.8.8.8:6379/")).outcome
    assert isinstance(outcome, Refused)
    assert "port 6379" in outcome.detail


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_name_that_changes_its_address_cannot_slip_through(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: the first answer is allowed, every later one is not."""
    asked: list[str] = []

    def rebound(host: str) -> tuple[str, ...]:
        asked.append(host)
        return ("127.0.0.2",) if len(asked) == 1 else ("127.0.0.1",)

    monkeypatch.setattr("headrace_fetcher.lookups.getaddrinfo", rebound)
    async with hostile_server() as server, rig(client, allow=("127.0.0.2/32",), ttl=0.0) as fetcher:
        server.routes["/"] = raw(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")  # each time a new connection
        first = (await fetcher.fetch(server.url("/", "rebound.test"))).outcome
        assert isinstance(first, Fetched), first
        assert len(asked) == 1
        for _ in range(3):
            later = (await fetcher.fetch(server.url("/", "rebound.test"))).outcome
            assert isinstance(later, Refused), later
        assert [seen.host for seen in server.log] == ["127.0.0.2"]


@pytest.mark.parametrize("client", CLIENTS)
async def test_a_name_moves_with_its_address_when_its_time_is_over(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = iter(["127.0.0.2", "127.0.0.3", "127.0.0.3"])
    monkeypatch.setattr("headrace_fetcher.lookups.getaddrinfo", lambda host: (next(answers),))
    async with hostile_server() as server, rig(client, ttl=0.0) as fetcher:
        server.routes["/"] = raw(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
        for _ in range(3):
            assert isinstance((await fetcher.fetch(server.url("/", "moving.test"))).outcome, Fetched)
        assert [seen.host for seen in server.log] == ["127.0.0.2", "127.0.0.3", "127.0.0.3"]
