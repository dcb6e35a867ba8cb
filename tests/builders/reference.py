"""Reference of the choice of hosts, worked out host by host in plain Python.

It shares no code with the scheduler, only the formula: raw values, brought to the request's scale, times
their multipliers, added; 4*10**15 - round(10**9 * score).
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

MAX_WEIGHT = 2**53 - 1
WEIGHERS = ("RAMWeigher", "CPUWeigher", "DiskWeigher")


@dataclass(frozen=True)
class FlatHost:
    """A host of the one flat zone; `building` is how many instances were put on it by now."""

    name: str
    vcpus: int
    ram_mb: int
    disk_gb: int
    reserved_mb: int = 0
    cpu_ratio: float = 1.0
    ram_ratio: float = 1.0
    traits: frozenset[str] = frozenset()
    used: Mapping[str, int] = field(default_factory=dict)
    building: int = 0

    @property
    def capacity(self) -> dict[str, int]:
        return {
            "VCPU": math.floor(self.vcpus * self.cpu_ratio + 1e-9),
            "MEMORY_MB": max(0, math.floor((self.ram_mb - self.reserved_mb) * self.ram_ratio + 1e-9)),
            "DISK_GB": self.disk_gb,
        }

    def left(self, name: str) -> int:
        return self.capacity[name] - self.used.get(name, 0)

    def takes(self, asked: Asked, count: int = 1) -> bool:
        has_room = all(self.left(name) >= amount * count for name, amount in asked.amounts.items())
        return has_room and asked.traits <= self.traits and self.building + count <= asked.most_per_host

    def with_one(self, asked: Asked) -> FlatHost:
        used = {name: self.used.get(name, 0) + amount for name, amount in asked.amounts.items()}
        return replace(self, used={**self.used, **used}, building=self.building + 1)

    def raw(self, weigher: str) -> float:
        match weigher:
            case "RAMWeigher":
                return float(self.ram_mb - self.reserved_mb - self.used.get("MEMORY_MB", 0))
            case "CPUWeigher":
                return float(self.left("VCPU"))
            case "IoOpsWeigher":
                return float(self.building)
            case _:
                return float((self.disk_gb - self.used.get("DISK_GB", 0)) * 1024)


@dataclass(frozen=True)
class Asked:
    """Amounts that one instance takes; amounts of 0 are left out.

    No host gets more than `most_per_host`: the rule of an anti-affinity group.
    """

    amounts: Mapping[str, int]
    traits: frozenset[str] = frozenset()
    most_per_host: float = math.inf


@dataclass(frozen=True)
class Line:
    """One weigher's part of the scale."""

    weigher: str
    high: float
    multiplier: float


def scale_over(hosts: Iterable[FlatHost], multipliers: Mapping[str, float]) -> list[Line]:
    """The scale of a request over these hosts: from 0, as the weighers declare, to the highest.

    Of the weighers that are not named here each says the same of all hosts of these tests.
    """
    known, factors = list(hosts), {**{name: multipliers[name] for name in WEIGHERS}, "IoOpsWeigher": -1.0}
    return [
        Line(name, max((host.raw(name) for host in known), default=0.0), factor)
        for name, factor in factors.items()
    ]


def weight(host: FlatHost, scale: Sequence[Line]) -> int:
    """The integer that a host is chosen by; lower is better."""
    score = 0.0
    for line in scale:
        if line.high > 0.0:
            score += host.raw(line.weigher) / line.high * line.multiplier
    return min(MAX_WEIGHT, max(0, 4 * 10**15 - round(1e9 * score)))


@cache
def tie_of(request_key: str, host_id: str, copies: int) -> int:
    """The tie key of a host with so many instances of the request on it; lower is better."""
    host_hash = hashlib.blake2b(host_id.encode(), digest_size=8).digest()[::-1]
    block = host_hash + copies.to_bytes(8, "little")
    encrypted = Cipher(AES(bytes.fromhex(request_key)), ECB()).encryptor().update(block)
    return int.from_bytes(encrypted[:8], "little") >> 44


class FlatZone:
    """One zone that has all hosts of a tree, and follows its choice."""

    def __init__(
        self,
        hosts: Iterable[FlatHost],
        asked: Asked,
        scale: Sequence[Line],
        ties: Callable[[str, int], int],
    ) -> None:
        """`ties`: the tie key by a host's name and the instances that were put on it here."""
        self._asked = asked
        self._scale = scale
        self._ties = ties
        self._placed: Counter[str] = Counter()
        self.hosts = {host.name: host for host in hosts}
        self._weights = {h.name: weight(h, scale) for h in self.hosts.values() if h.takes(asked)}

    @property
    def best(self) -> int | None:
        """The best weight that any host offers now; None when none has room."""
        return min(self._weights.values(), default=None)

    def weight_of(self, name: str) -> int | None:
        """Offer of a host now; None where the instance does not fit."""
        return self._weights.get(name)

    def offer_of(self, name: str) -> tuple[int, int]:
        """The weight and the tie key of a host with room."""
        return self._weights[name], self._ties(name, self._placed[name])

    @property
    def best_offer(self) -> tuple[int, int]:
        """The lowest weight that any host offers now, and the lowest tie key of the hosts that offer it."""
        best = self.best
        return min(self.offer_of(name) for name, weight in self._weights.items() if weight == best)

    def take(self, name: str) -> None:
        """Put one instance on a host."""
        self._placed[name] += 1
        host = self.hosts[name] = self.hosts[name].with_one(self._asked)
        del self._weights[name]
        if host.takes(self._asked):
            self._weights[name] = weight(host, self._scale)

    def replay(self, picks: Sequence[tuple[str, int, int]], wanted: int) -> None:
        """Take (host, weight, tie key) picks in order; each must be the best, and none may be missing."""
        for number, (name, *claimed) in enumerate(picks):
            assert self.weight_of(name) == claimed[0], f"pick {number}: {name} does not weigh {claimed[0]}"
            assert self.offer_of(name) == tuple(claimed), f"pick {number}: {name} has another tie key"
            assert tuple(claimed) == self.best_offer, f"pick {number}: {name} is not the best"
            self.take(name)
        assert len(picks) == wanted or (len(picks) < wanted and self.best is None)

    def untouched(self, picked: Iterable[str]) -> list[int]:
        """The weights of hosts with room that are not among the picks, best first."""
        return sorted(w for name, w in self._weights.items() if name not in set(picked))

    def whole(self, count: int) -> list[tuple[int, int]]:
        """Weight and tie key of the hosts with room for `count` instances together, best first."""
        return sorted(
            (weight(host, self._scale), self._ties(name, 0))
            for name, host in self.hosts.items()
            if host.takes(self._asked, count)
        )
