"""Recoveries as operators see them: whom one waits for, and what its end changes."""

from __future__ import annotations

from zonesched.model.inconsistency import Inconsistency, OfFound, OfInstance, OfNeighbour
from zonesched.services.recovery.decision import (
    Adopted,
    Confirmed,
    Decision,
    Ended,
    Kept,
    Moved,
    Moving,
    Unclaimed,
    Unwanted,
)
from zonesched.store import recovery
from zonesched.store.recovery import Found, Kind
from zonesched.store.store import Transaction

_WAITS_FOR = {
    Kind.AGENT: "the agent has not said what it runs; if it is gone for good, evacuate and remove its hosts",
    Kind.CHILD: "the child zone has not said what it has; if it is gone for good, remove it by force",
    Kind.PARENT: "the parent has not named its instances here; if it is none any more, delete its user",
}


def unheard(tx: Transaction) -> list[Inconsistency]:
    """Read the neighbours that were not heard yet."""
    return [
        Inconsistency("neighbour_unheard", OfNeighbour(one.kind.value, one.name), _WAITS_FOR[one.kind])
        for one in recovery.unheard(tx)
    ]


def of_decision(decision: Decision) -> Inconsistency:
    """Return what a decision changes, or leaves."""
    match decision:
        case Ended(known):
            subject = OfInstance(known.instance.uuid, known.instance.caller_id)
            return Inconsistency("restored_instance_gone", subject, "neither an agent nor a child has it")
        case Moved(known, found) | Moving(known, found):
            subject = OfInstance(known.instance.uuid, known.instance.caller_id)
            return Inconsistency("restored_instance_elsewhere", subject, f"{_holder(found)} has it")
        case Confirmed(known, found):
            subject = OfInstance(known.instance.uuid, known.instance.caller_id)
            where = f"{_holder(found)} has it at its new place alone"
            return Inconsistency("restored_instance_elsewhere", subject, where)
        case Adopted(found) | Kept(found) | Unwanted(found):
            return Inconsistency(
                "instance_unknown_here", _subject(found), "no row here has it, and its owner is known"
            )
        case Unclaimed(found):
            return Inconsistency(
                "instance_unknown_here", _subject(found), "no row here has it, and no parent names it"
            )


def _subject(found: Found) -> OfFound:
    return OfFound(_holder(found), found.uuid, found.number)


def _holder(found: Found) -> str:
    """Return who has it, by the names that operators give to commands; by the id where its row is gone."""
    holder = f"{found.kind.value} {found.holder or found.holder_id}"
    return f"{holder} on host {found.host}" if found.host else holder
