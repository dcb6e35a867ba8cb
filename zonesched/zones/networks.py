"""Kinds of addresses, and the networks that a zone's children may be in.

    public      routed everywhere
    private     10/8, 172.16/12, 192.168/16, fc00::/7
    loopback    127/8, ::1
    link-local  169.254/16, fe80::/10

Everything else (unspecified, multicast, reserved, shared, documentation, tunnels, and the addresses at which
clouds hand out a machine's credentials) is of no kind and has to be listed as a network.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_network

from zonesched.errors import ConfigError

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

KINDS = ("public", "private", "loopback", "link-local")

METADATA = frozenset(
    {
        IPv4Address("169.254.169.254"),
        IPv4Address("169.254.170.2"),
        IPv4Address("169.254.170.23"),
        IPv4Address("100.100.100.200"),
        IPv4Address("168.63.129.16"),
        IPv4Address("192.0.0.192"),
        IPv6Address("fd00:ec2::254"),
        IPv6Address("fd00:ec2::23"),
        IPv6Address("fd20:ce::254"),
    }
)
"""Metadata addresses where clouds hand out credentials to any process of a machine."""

_PRIVATE = tuple(ip_network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"))
_GLOBAL_V6 = IPv6Network("2000::/3")
_NOT_PUBLIC = tuple(
    ip_network(text)
    for text in (
        "192.88.99.0/24",  # relays of 6to4
        "2001::/23",  # Teredo, ORCHID and other protocol assignments
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
_ISATAP_TAGS = (0x00005EFE, 0x02005EFE)
_LAST_32 = 0xFFFFFFFF


def real_address(address: Address) -> Address:
    """Return the IPv4 address of an IPv4-mapped IPv6 one; any other address unchanged."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


class Networks:
    """Kinds and networks that an option lists."""

    def __init__(self, kinds: Iterable[str], networks: Iterable[Network]) -> None:
        self._kinds = frozenset(kinds)
        self._networks = tuple(networks)

    @classmethod
    def from_words(cls, words: Sequence[str]) -> Networks:
        """The words of option child_networks: kinds, and networks such as 10.1.0.0/16. Raises ConfigError."""
        lower = [word.strip().lower() for word in words]
        return cls(
            [word for word in lower if word in KINDS],
            [_network(word) for word in lower if word not in KINDS],
        )

    def admit(self, address: Address) -> bool:
        """Tell whether an address, and each address embedded in it, may be connected to."""
        return all(self._admits_one(one) for one in _reached(address))

    def _admits_one(self, address: Address) -> bool:
        if _kind(address) in self._kinds:
            return True
        return any(address in network for network in self._networks)


def _network(word: str) -> Network:
    try:
        return ip_network(word)
    except ValueError:
        raise ConfigError(
            f"Option child_networks is {word!r}; it must be a list of {', '.join(KINDS)}"
            " and networks such as 10.1.0.0/16.",
            field="child_networks",
        ) from None


def _kind(address: Address) -> str:
    """Return one of KINDS, or "" for an address that only a listed network admits."""
    if address in METADATA or address.is_multicast:
        return ""
    if address.is_loopback:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    if any(address in network for network in _PRIVATE):
        return "private"
    if isinstance(address, IPv6Address) and address not in _GLOBAL_V6:
        return ""
    if not address.is_global or any(address in network for network in _NOT_PUBLIC):
        return ""
    return "public"


def _reached(address: Address) -> tuple[Address, ...]:
    """Return the address and all that are embedded in it, where a packet to it may end up."""
    address = real_address(address)
    if isinstance(address, IPv4Address):
        return (address,)
    bits = int(address)
    last = IPv4Address(bits & _LAST_32)
    if address in _NAT64:
        return (last,)
    if address.sixtofour is not None:
        return (address, address.sixtofour)
    if address.teredo is not None:
        return (address, *address.teredo)
    if address in _COMPATIBLE and bits > 1:
        return (address, last)
    if (bits >> 32) & _LAST_32 in _ISATAP_TAGS:
        return (address, last)
    return (address,)
