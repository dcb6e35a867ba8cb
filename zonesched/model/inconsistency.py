"""Inconsistencies that the audit finds, and the outcome of their repair."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OfInventory:
    """One resource class of an own host."""

    host_id: str
    resource_class: str

    def __str__(self) -> str:
        return f"host {self.host_id} {self.resource_class}"


@dataclass(frozen=True)
class OfPlace:
    """One place of an instance; `caller_id` sent it: a parent's user, or this zone for its own users."""

    uuid: str
    number: int
    caller_id: str

    def __str__(self) -> str:
        return f"instance {self.uuid} place {self.number}"


@dataclass(frozen=True)
class OfInstance:
    """An instance; `caller_id` likewise."""

    uuid: str
    caller_id: str

    def __str__(self) -> str:
        return f"instance {self.uuid}"


@dataclass(frozen=True)
class OfReservation:
    """A boot; `caller_id` likewise."""

    id: str
    caller_id: str

    def __str__(self) -> str:
        return f"reservation {self.id}"


@dataclass(frozen=True)
class OfGroup:
    """A server group; `caller_id` likewise."""

    caller_id: str
    group_id: str

    def __str__(self) -> str:
        return f"group {self.group_id} of {self.caller_id}"


@dataclass(frozen=True)
class OfEntry:
    """A sealed entry, by its key."""

    key: str

    def __str__(self) -> str:
        return f"entry {self.key}"


@dataclass(frozen=True)
class OfChild:
    """A child zone."""

    child_id: str

    def __str__(self) -> str:
        return f"child {self.child_id}"


@dataclass(frozen=True)
class OfAttempt:
    """One attempt of an instance in a child zone; `caller_id` likewise, "" where this zone knows of none."""

    child_id: str
    uuid: str
    attempt: int
    caller_id: str

    def __str__(self) -> str:
        return f"instance {self.uuid} attempt {self.attempt} in child {self.child_id}"


@dataclass(frozen=True)
class OfNeighbour:
    """A neighbour that a restored zone has to hear: an agent, a child, a parent, or its operator."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}".rstrip()


@dataclass(frozen=True)
class OfFound:
    """An instance that an agent or a child has, by the number of its place here; `holder`: in words."""

    holder: str
    uuid: str
    number: int

    def __str__(self) -> str:
        return f"instance {self.uuid} place {self.number} at {self.holder}"


@dataclass(frozen=True)
class OfDatabase:
    """The zone's database as a whole."""

    def __str__(self) -> str:
        return "the database"


Subject = (
    OfInventory
    | OfPlace
    | OfInstance
    | OfReservation
    | OfGroup
    | OfEntry
    | OfChild
    | OfAttempt
    | OfNeighbour
    | OfFound
    | OfDatabase
)


@dataclass(frozen=True)
class Inconsistency:
    """One thing that the audit found wrong: its kind (a stable code), what it is about, and the detail."""

    kind: str
    subject: Subject
    detail: str

    @property
    def order(self) -> tuple[str, str, str]:
        """Sort key: inconsistencies are reported in this order."""
        return (self.kind, str(self.subject), self.detail)

    @property
    def parents_id(self) -> str:
        """Name under which the parent knows it: the uuid or id that the parent gave."""
        match self.subject:
            case OfPlace(uuid=uuid) | OfInstance(uuid=uuid) | OfAttempt(uuid=uuid):
                return uuid
            case OfReservation(id=id_):
                return id_
            case OfGroup(group_id=group_id):
                return group_id
            case _:
                return ""

    @property
    def caller_id(self) -> str:
        """The caller that owns the subject; "" for subjects of the zone itself: hosts, children, entries."""
        match self.subject:
            case OfPlace() | OfInstance() | OfReservation() | OfGroup() | OfAttempt() as subject:
                return subject.caller_id
            case _:
                return ""


@dataclass(frozen=True)
class Repaired:
    """An inconsistency that a repair has removed, and how."""

    inconsistency: Inconsistency
    action: str


@dataclass(frozen=True)
class Left:
    """An inconsistency that a repair leaves as it is, and why."""

    inconsistency: Inconsistency
    why: str


RepairResult = Repaired | Left


@dataclass(frozen=True)
class ReportedInconsistency:
    """An inconsistency as reported to a parent: its kind, and the instance, boot or group of the parent's."""

    kind: str
    id: str


@dataclass(frozen=True)
class ReportedAudit:
    """Report to one parent on its own rows, from a zone and all its descendants.

    Not `complete` if a zone was unreachable.
    """

    inconsistencies: tuple[ReportedInconsistency, ...]
    complete: bool


@dataclass(frozen=True)
class ReportedByChild:
    """Report of one child on all placements of this zone there."""

    child_id: str
    name: str
    reported: ReportedAudit
