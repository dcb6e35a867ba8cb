"""The agent's usage ledger: the resources of the instances on its hosts, compared with the zone's claims.

Pure: `zonesched.compute.tracker` makes the calls. The zone is authoritative for the resources of an instance
and for the wanted instances; the ledger changes no claim.

Between a claim and its build, or a release and the end of the instance, the two may differ. So the
agent's state of an instance counts only if it has not changed since the last comparison, else the zone's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from zonesched.compute.machine import Key, Local, Phase

HostClass = tuple[str, str]
"""A host's name and a resource class."""


@dataclass(frozen=True)
class Claim:
    """Amounts of one instance on its host, by resource class, as the zone reports them."""

    host: str
    resources: Mapping[str, int]


@dataclass(frozen=True)
class Booked:
    """The zone's claims on one place: all of them, and the part held for instances that do not run yet.

    `excess`: the agent's last report of how much more it counts.
    """

    used: int
    held: int = 0
    excess: int = 0


@dataclass(frozen=True)
class Statement:
    """The zone's claims on an agent's hosts, in one snapshot."""

    wanted: Mapping[Key, Claim] = field(default_factory=dict)
    booked: Mapping[HostClass, Booked] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """One instance of the ledger: whether it takes resources here, and whether the zone wants it."""

    claim: Claim
    is_here: bool
    is_wanted: bool

    def counts(self, before: Entry | None) -> bool:
        """Tell whether the instance is counted, given its state at the last comparison."""
        is_unchanged = before is not None and (before.is_here, before.is_wanted) == (
            self.is_here,
            self.is_wanted,
        )
        return self.is_here if is_unchanged else self.is_wanted


@dataclass(frozen=True)
class Excess:
    """A lasting difference between the amounts that the agent counts in a place and the claims there."""

    host: str
    resource_class: str
    counted: int
    claimed: int

    @property
    def place(self) -> HostClass:
        return self.host, self.resource_class

    @property
    def amount(self) -> int:
        """Excess of the count over the claims; negative for less."""
        return self.counted - self.claimed


@dataclass(frozen=True)
class UsageLedger:
    """State of the ledger at the last comparison."""

    entries: Mapping[Key, Entry] = field(default_factory=dict)
    counted: Mapping[HostClass, int] = field(default_factory=dict)
    excesses: tuple[Excess, ...] = ()


def present(instances: Mapping[Key, Local]) -> frozenset[Key]:
    """Instances that take resources of a host: being built, running, or not gone yet."""
    return frozenset(key for key, local in instances.items() if local.phase is not Phase.FAILED)


def compare(ledger: UsageLedger, here: Set[Key], statement: Statement) -> UsageLedger:
    """Return the ledger after a comparison; `here`: the instances that take resources of the agent's hosts.

    An instance that is here and that the zone has never listed is not in it.
    """
    known = {key: entry.claim for key, entry in ledger.entries.items() if key in here}
    claims = known | dict(statement.wanted)
    entries = {key: Entry(claim, key in here, key in statement.wanted) for key, claim in claims.items()}
    counted = _sums(entry.claim for key, entry in entries.items() if entry.counts(ledger.entries.get(key)))
    claimed = Counter({place: booked.used - booked.held for place, booked in statement.booked.items()})
    excesses = tuple(
        Excess(*place, counted[place], claimed[place])
        for place in sorted(counted.keys() | claimed.keys())
        if counted[place] != claimed[place]
    )
    return UsageLedger(entries, counted, excesses)


def unreported(ledger: UsageLedger, statement: Statement) -> Mapping[HostClass, int]:
    """Return the present excess of each place where the last report was another one."""
    amounts = {excess.place: excess.amount for excess in ledger.excesses}
    known = {place: booked.excess for place, booked in statement.booked.items()}
    return {
        place: amounts.get(place, 0)
        for place in sorted(amounts.keys() | known.keys())
        if amounts.get(place, 0) != known.get(place, 0)
    }


def _sums(claims: Iterable[Claim]) -> Counter[HostClass]:
    total: Counter[HostClass] = Counter()
    for claim in claims:
        for resource_class, amount in claim.resources.items():
            total[claim.host, resource_class] += amount
    return total
