"""Events of servers for other programs, in the form of OpenStack Nova's versioned notifications.

A transaction notes only whose instance has come to something (`store.outcomes`); once it is durable, the
notes wait for the loop that sends, which reads the rows. Only this zone's own users' servers have events: a
parent's have theirs where their owner is. Events may be lost; the instance actions are the record.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import orjson

from zonesched.broker.contract import Event
from zonesched.model.desired_state import NEW, Result
from zonesched.model.instance_action import own_request_id
from zonesched.model.instance_flavor import flavor_of
from zonesched.model.instance_image import image_of
from zonesched.model.openstack_time import iso_time
from zonesched.model.placement import InstanceStatus
from zonesched.store import instance_actions, instance_states, instances, reservations
from zonesched.store.instance_actions import InstanceAction
from zonesched.store.instance_states import StoredState
from zonesched.store.instances import Instance
from zonesched.store.outcomes import ActionsEnded, BecameActive, BecameError, Outcome
from zonesched.store.reservations import Reservation
from zonesched.store.store import Observer, Transaction

NAMES: Mapping[str, str] = {
    "start": "power_on",
    "stop": "power_off",
    "shelve": "shelve_offload",
    "migrate": "resize_finish",
    "resize": "resize_finish",
    "confirmResize": "resize_confirm",
    "revertResize": "resize_revert",
    # It leaves its child zone as a shelved one does, and its evacuation is told after that.
    "drain": "shelve_offload",
    "drain stopped": "shelve_offload",
}
"""OpenStack's names of events where they are not those of the actions."""

WITHOUT_PHASE = frozenset({"lock", "unlock"})
INFO, ERROR = "INFO", "ERROR"


class NoteKind(enum.Enum):
    """Kind of event of an instance; ACTIONS: some of its actions have ended."""

    ACTIVE = "active"
    ERROR = "error"
    ACTIONS = "actions"


@dataclass(frozen=True)
class InstanceNote:
    """One instance in one durable transaction; `at`: its time, in epoch seconds."""

    uuid: str
    kind: NoteKind
    at: float


@dataclass(frozen=True)
class Publisher:
    """The zone that sends; `new_id` makes the ids of messages."""

    zone_uuid: str
    zone_name: str
    new_id: Callable[[], str]


class EventObserver:
    """Observer of a store that also hands on what is to be told of instances."""

    def __init__(self, counts: Observer, tell: Callable[[Sequence[InstanceNote]], None]) -> None:
        self._counts = counts
        self._tell = tell

    def writing(self) -> AbstractContextManager[None]:
        return self._counts.writing()

    def conflicted(self) -> None:
        self._counts.conflicted()

    def committed(self, done: Sequence[Outcome]) -> None:
        self._counts.committed(done)
        if notes := [note for outcome in done for note in notes_of(outcome)]:
            self._tell(notes)


def notes_of(outcome: Outcome) -> list[InstanceNote]:
    """Return what an outcome says of single instances."""
    match outcome:
        case BecameActive(uuids=uuids, at=at):
            return [InstanceNote(uuid, NoteKind.ACTIVE, at) for uuid in uuids]
        case BecameError(uuids=uuids, at=at):
            return [InstanceNote(uuid, NoteKind.ERROR, at) for uuid in uuids]
        case ActionsEnded(uuids=uuids, at=at):
            return [InstanceNote(uuid, NoteKind.ACTIONS, at) for uuid in uuids]
        case _:
            return []


def events_of(tx: Transaction, publisher: Publisher, notes: Sequence[InstanceNote]) -> list[Event]:
    """Read the events of these notes, in their order; an instance shows what it is now."""
    uuids = sorted({note.uuid for note in notes})
    rows = {
        uuid: row
        for uuid, row in instances.read_by_uuid(tx, uuids).items()
        if row.caller_id == publisher.zone_uuid
    }
    boots = reservations.read_ids(tx, sorted({row.reservation_id for row in rows.values()}))
    states = instance_states.read(tx, list(rows))
    events: list[Event] = []
    for note in notes:
        if note.uuid in rows:
            row = rows[note.uuid]
            subject = _Subject(row, boots[row.caller_id, row.reservation_id], states.get(row.uuid))
            events += _events(tx, publisher, subject, note)
    return events


@dataclass(frozen=True)
class _Subject:
    instance: Instance
    boot: Reservation
    stored: StoredState | None


def _events(tx: Transaction, publisher: Publisher, subject: _Subject, note: InstanceNote) -> list[Event]:
    instance = subject.instance
    match note.kind:
        case NoteKind.ACTIVE:
            return [_event(publisher, subject, note, "instance.create.end", _creation(subject))]
        case NoteKind.ERROR if instance.status is InstanceStatus.ERROR:
            what = "instance.create.error" if subject.stored is None else "instance.update"
            return [_event(publisher, subject, note, what, _creation(subject) | {"fault": instance.reason})]
        case NoteKind.ERROR:
            # It has been deleted since.
            return []
        case NoteKind.ACTIONS:
            ended = [one for one in instance_actions.of_instance(tx, note.uuid) if one.finished_at == note.at]
            return [
                _event(publisher, subject, note, _type_of(one), _action(one))
                for one in reversed(ended)
                if one.action != "create" and one.result is not Result.SUPERSEDED
            ]


def _type_of(action: InstanceAction) -> str:
    # One that may be taken back has made a desired state.
    done = "soft_delete" if action.action == "delete" and action.generation else action.action
    name = f"instance.{NAMES.get(done, done)}"
    if action.action in WITHOUT_PHASE:
        return name
    return f"{name}.error" if action.result is Result.ERROR else f"{name}.end"


def _action(action: InstanceAction) -> dict[str, Any]:
    return {
        "request_id": action.request_id or own_request_id(action.uuid, action.number),
        "action_initiator_user": action.user_id,
        "action_initiator_project": action.project_id,
        "fault": action.reason or None,
    }


def _creation(subject: _Subject) -> dict[str, Any]:
    spec = subject.boot.spec
    return {
        "request_id": spec.traced_by or spec.request_id,
        "action_initiator_user": subject.instance.user_id,
        "action_initiator_project": subject.instance.project_id,
        "fault": None,
    }


def _event(
    publisher: Publisher, subject: _Subject, note: InstanceNote, event_type: str, more: Mapping[str, Any]
) -> Event:
    priority = ERROR if event_type.endswith(".error") else INFO
    message = {
        "message_id": publisher.new_id(),
        "publisher_id": f"zonesched:{publisher.zone_name}",
        "timestamp": iso_time(note.at),
        "priority": priority,
        "event_type": event_type,
        "payload": _object("InstancePayload", {**_instance(subject), **more}),
    }
    # The envelope of oslo.messaging, which OpenStack's consumers open.
    envelope = {"oslo.version": "2.0", "oslo.message": orjson.dumps(message).decode()}
    return Event(f"notifications.{priority.lower()}", orjson.dumps(envelope).decode())


def _instance(subject: _Subject) -> dict[str, Any]:
    instance, spec = subject.instance, subject.boot.spec
    state = subject.stored.state if subject.stored is not None else NEW
    is_active = instance.status is InstanceStatus.ACTIVE
    flavor = flavor_of(state.present_flavor, spec.flavor)
    launched_at = subject.stored.built_at if subject.stored is not None else instance.updated_at * is_active
    return {
        "uuid": instance.uuid,
        "display_name": instance.name,
        "tenant_id": instance.project_id,
        "user_id": instance.user_id,
        "reservation_id": instance.reservation_id,
        "state": instance.status.value.lower(),
        "power_state": state.observed.power.value if is_active else "pending",
        "image_uuid": image_of(state.image, spec.image).id,
        "flavor": _object(
            "FlavorPayload",
            {
                "flavorid": flavor.id,
                "name": flavor.name,
                "vcpus": flavor.vcpus,
                "memory_mb": flavor.ram_mb,
                "root_gb": flavor.disk_gb,
            },
        ),
        "created_at": iso_time(instance.created_at),
        "updated_at": iso_time(instance.updated_at),
        "launched_at": iso_time(launched_at) if launched_at else None,
    }


def _object(name: str, data: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "nova_object.name": name,
        "nova_object.namespace": "zonesched",
        "nova_object.version": "1.0",
        "nova_object.data": dict(data),
    }
