"""IP addresses: the networks that they are in, and a column that tests all hosts at once against one."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from zonesched.model.arrays import Bools, Hashes, RowSelection

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_LOW = 2**64 - 1


def is_inside(address: str, network: Network) -> bool:
    """Tell whether an address belongs to this network; false for a text that is not an IP address."""
    try:
        return ipaddress.ip_address(address) in network
    except ValueError:
        return False


@lru_cache(maxsize=1024)
def network_of(address: str) -> str:
    """Return the network that counts as one caller: for IPv6 the /64, since one caller may own it whole."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return "unknown"
    if parsed.version == 4:
        return str(parsed)
    mapped = parsed.ipv4_mapped
    return str(mapped) if mapped else str(ipaddress.ip_network((parsed, 64), strict=False))


class AddressColumn:
    """Addresses by row as 128 bits; version 0 for a text that is no IP address."""

    def __init__(self, room: int) -> None:
        self._texts = [""] * room
        self._version: npt.NDArray[np.uint8] = np.zeros(room, dtype=np.uint8)
        self._high: Hashes = np.zeros(room, dtype=np.uint64)
        self._low: Hashes = np.zeros(room, dtype=np.uint64)

    def grow(self, room: int) -> None:
        more = room - len(self._texts)
        self._texts += [""] * more
        self._version = np.concatenate([self._version, np.zeros(more, dtype=np.uint8)])
        self._high = np.concatenate([self._high, np.zeros(more, dtype=np.uint64)])
        self._low = np.concatenate([self._low, np.zeros(more, dtype=np.uint64)])

    def __getitem__(self, row: int) -> str:
        return self._texts[row]

    def set(self, row: int, text: str) -> None:
        if text == self._texts[row]:
            return
        self._texts[row] = text
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            self._version[row] = 0
            return
        self._version[row] = address.version
        self._high[row], self._low[row] = int(address) >> 64, int(address) & _LOW

    def inside(self, rows: RowSelection, network: Network) -> Bools:
        """Apply `is_inside` to each of `rows`."""
        base, mask = int(network.network_address), int(network.netmask)
        inside: Bools = self._version[rows] == network.version
        for column, bits, wanted in (
            (self._high, mask >> 64, base >> 64),
            (self._low, mask & _LOW, base & _LOW),
        ):
            inside &= (column[rows] & np.uint64(bits)) == np.uint64(wanted)
        return inside
