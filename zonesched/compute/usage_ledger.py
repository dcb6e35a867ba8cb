"""The agent's own account of its hosts: what its instances take there, beside what the zone has claimed.

Values in, values out: `zonesched.compute.tracker` asks and tells. The zone's word counts: what an instance
takes and which of them should be there is the zone's to say, and no account changes a claim.

Between a claim and its build, or the end of a claim and that of its instance, the two differ rightly. So an
instance counts by what the agent has only where it stands as at the look before, else by what the zone wants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from zonesched.compute.machine import Key, Local, Phase

Place = tuple[str, str]
"""A host's name and a resource class."""


@dataclass(frozen=True)
class Claim:
    """Amounts of one instance on its host, by resource class, as the zone reports them."""

    host: str
    resources: Mapping[str, int]


@dataclass(frozen=True)
class Booked:
    """The zone's claims on one place: all of them, and the part held for instances that do not run yet.

    `excess`: by how much it was last told that the agent counts more.
    """

    used: int
    held: int = 0
    excess: int = 0


@dataclass(frozen=True)
class Statement:
    """The zone's claims on an agent's hosts, in one snapshot."""

    wanted: Mapping[Key, Claim] = field(default_factory=dict)
    booked: Mapping[Place, Booked] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """One instance of the account: whether it takes room here, and whether the zone wants it."""

    claim: Claim
    is_here: bool
    is_wanted: bool

    def counts(self, before: Entry | None) -> bool:
        """Tell whether an instance is counted, given its state at the last comparison."""
        stands = before is not None and (before.is_here, before.is_wanted) == (self.is_here, self.is_wanted)
        return self.is_here if stands else self.is_wanted


@dataclass(frozen=True)
class Excess:
    """The agent counts other amounts of a place than are claimed there, and not just for the moment."""

    host: str
    resource_class: str
    counted: int
    claimed: int

    @property
    def place(self) -> Place:
        return self.host, self.resource_class

    @property
    def amount(self) -> int:
        """Excess of the count over the claims; negative for less."""
        return self.counted - self.claimed


@dataclass(frozen=True)
class UsageLedger:
    """State of the ledger at the last comparison."""

    entries: Mapping[Key, Entry] = field(default_factory=dict)
    counted: Mapping[Place, int] = field(default_factory=dict)
    excesses: tuple[Excess, ...] = ()


def present(instances: Mapping[Key, Local]) -> frozenset[Key]:
    """Instances that take resources of a host: being built, running, or not gone yet."""
    return frozenset(key for key, local in instances.items() if local.phase is not Phase.FAILED)


def look(account: UsageLedger, here: Set[Key], told: Statement) -> UsageLedger:
    """The account with the zone's present word, when these instances take room on the agent's hosts.

    What neither says of an instance that is here and that the zone has never named is in no account.
    """
    claims = {key: entry.claim for key, entry in account.entries.items() if key in here} | dict(told.wanted)
    entries = {key: Entry(claim, key in here, key in told.wanted) for key, claim in claims.items()}
    counted = _sums(entry.claim for key, entry in entries.items() if entry.counts(account.entries.get(key)))
    claimed = Counter({place: booked.used - booked.held for place, booked in told.booked.items()})
    excesses = tuple(
        Excess(*place, counted[place], claimed[place])
        for place in sorted(counted.keys() | claimed.keys())
        if counted[place] != claimed[place]
    )
    return UsageLedger(entries, counted, excesses)


def unreported(account: UsageLedger, told: Statement) -> Mapping[Place, int]:
    """By how much the agent counts more, of each place where the zone was last told something else."""
    amounts = {excess.place: excess.amount for excess in account.excesses}
    known = {place: booked.excess for place, booked in told.booked.items()}
    return {
        place: amounts.get(place, 0)
        for place in sorted(amounts.keys() | known.keys())
        if amounts.get(place, 0) != known.get(place, 0)
    }


def _sums(claims: Iterable[Claim]) -> Counter[Place]:
    total: Counter[Place] = Counter()
    for claim in claims:
        for resource_class, amount in claim.resources.items():
            total[claim.host, resource_class] += amount
    return total
