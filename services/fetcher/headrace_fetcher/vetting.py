"""Which addresses may be reached: public unicast ones, and what `fetch.allow_private` opens.

A crawler follows links that strangers write. Without this a page could have it read the metadata service of the cloud
it runs in, or a router's admin page. Addresses that carry another one inside (IPv4-mapped, NAT64, 6to4) are judged by
what they carry: the kernel or a gateway would send the packets there.
"""

import ipaddress
from collections.abc import Iterable
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from headrace_fetcher.faults import AddressRefused
from headrace_schemas.errors import UsageError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052; `is_global` lets it through
_UNICAST6 = IPv6Network("2000::/3")  # all that IANA has allotted as global unicast
_SPECIAL = tuple(  # IANA's special-purpose blocks that `is_global` of one Python or another takes for public
    ipaddress.ip_network(block)
    for block in ("192.0.0.0/24", "192.88.99.0/24", "198.18.0.0/15", "2001::/23", "2001:db8::/32", "3fff::/20")
)
_PLATFORM = frozenset({IPv4Address("168.63.129.16")})  # Azure's host agent: a public address, but not the web


class Vetting:
    """Says yes or no to one address. Asked again at every new connection, so the answers are cached."""

    def __init__(self, allow: Iterable[str] = (), ports: Iterable[int] = ()) -> None:
        """`ports`: beside 80 and 443. A stranger's link to port 22 or 6379 makes us knock at someone's mail server or
        database; in a range that was opened by name, any port is."""
        self._ports = frozenset({80, 443, *ports})
        self._allowed = tuple(_network(cidr) for cidr in allow)
        self._judged = lru_cache(maxsize=16_384)(self._judge)

    def check(self, address: str, port: int = 443) -> None:
        """Raises `AddressRefused`; the message says why."""
        why, opened = self._judged(address)
        if why:
            raise AddressRefused(why)
        if port not in self._ports and not opened:
            raise AddressRefused(f"port {port} of {address}: only {', '.join(map(str, sorted(self._ports)))} are open")

    def _judge(self, text: str) -> tuple[str, bool]:
        """→ what is wrong with it, and whether a setting opened it by name."""
        try:
            given = ipaddress.ip_address(text.strip("[]"))
        except ValueError:
            return f"{text[:100]!r} is not an address", False
        carried = unwrap(given)
        if any(_within(address, network) for address in (given, carried) for network in self._allowed):
            return "", True
        kind = _kind(carried)
        if not kind:
            return "", False
        why = f"{text} is {kind}" if carried == given else f"{text} leads to {carried}, which is {kind}"
        return why, False


def unwrap(address: Address) -> Address:
    """The IPv4 address that packets to an IPv6 one would reach, if it carries one."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _kind(address: Address) -> str:
    """What is wrong with it, as a word for people; empty if it is public."""
    if address.is_unspecified:
        return "unspecified"
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    if address.is_multicast:
        return "multicast"
    if address in _PLATFORM:
        return "a cloud platform's own"
    if address.is_reserved:
        return "reserved"
    if not address.is_global or (isinstance(address, IPv6Address) and address not in _UNICAST6):
        return "not public"
    if any(_within(address, block) for block in _SPECIAL):
        return "not public"
    return ""


def _within(address: Address, network: Network) -> bool:
    return address.version == network.version and address in network


def _network(cidr: str) -> Network:
    try:
        return ipaddress.ip_network(cidr.strip(), strict=False)
    except ValueError:
        raise UsageError(f"fetch.allow_private has {cidr!r}; an address range looks like 10.0.0.0/8") from None
