"""Accept a user's boot: check it, write its rows and answer; a worker goes on from the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from zonesched import tracing
from zonesched.errors import BadRequest, Conflict
from zonesched.model.boot_form import BootForm
from zonesched.model.caller import Caller
from zonesched.model.request_spec import (
    Group,
    GroupPolicy,
    NoGroup,
    Policy,
    RequestSpec,
    ServerGroup,
)
from zonesched.model.views import Accepted
from zonesched.services.catalog import flavors, images, server_groups
from zonesched.services.select import select
from zonesched.services.state import stored_secrets
from zonesched.services.state.boot_queue import NewBoot
from zonesched.services.zone import Zone
from zonesched.store import hosts, identity, instances, reservations
from zonesched.store.instances import Instance
from zonesched.store.reservations import Reservation, ReservationState
from zonesched.store.store import Store, Transaction


@dataclass(frozen=True)
class _Stored:
    """The answer to a boot. `new`: the boot that this process begins at once; None for a repeated request."""

    accepted: Accepted
    new: NewBoot | None


@dataclass(frozen=True)
class _Earlier:
    """The answer to an earlier request under the same idempotency key. `is_same`: it had the same body."""

    accepted: Accepted
    is_same: bool


def accept(zone: Zone, caller: Caller, form: BootForm) -> Accepted:
    """Write the rows of a user's boot and return its reservation; a worker does the rest in the background.

    A repeat under the same idempotency key returns the first answer. Raises BadRequest for an
    invalid request, Conflict when the key was used for another request, OverLimit and ZoneBusy for too much.
    """
    received_at = zone.clock.now()
    select.check_ready(zone)
    try:
        spec = spec_of(zone, caller, form)
    except BadRequest:
        # What the first request named, such as a flavor or a group, may have been removed since.
        earlier = zone.store.read(lambda tx: _earlier(zone, tx, caller, form))
        if earlier is None or not earlier.is_same:
            raise
        return earlier.accepted
    passthrough = stored_secrets.protected(zone.secret_box, spec.request_id, form.passthrough)
    stored = zone.store.write(lambda tx: _write(zone, tx, caller, form, spec, passthrough, received_at))
    if stored.new is not None:
        zone.quotas.note_boot(caller.project_id)
        zone.wake.new_boot(stored.new)
    return stored.accepted


def spec_of(zone: Zone, caller: Caller, form: BootForm) -> RequestSpec:
    """Build the request spec of a user's boot, with a new request id. Raises BadRequest, naming the field."""
    limit = zone.conf.max_instances_per_request
    if form.num_instances > limit:
        raise BadRequest(
            f"num_instances is {form.num_instances}; this zone takes 1 to {limit}.",
            code="too_many_instances",
            field="num_instances",
        )
    _check_named_hosts(zone.store, form)
    flavor = flavors.resolve(zone.store, form.flavor_ref, flavors.viewer_of(caller))
    image = images.resolve(zone.store, form.image_ref)
    images.check_fits(image, flavor)
    group = _group_of(zone.store, caller, form)
    together = isinstance(group, ServerGroup) and group.policy is GroupPolicy.AFFINITY
    spec = RequestSpec(
        request_id=zone.clock.new_uuid(),
        project_id=caller.project_id,
        num_instances=form.num_instances,
        flavor=flavor,
        image=image.image,
        alternates=zone.conf.select_alternates,
        policy=Policy.AFFINITY if together else form.policy,
        group=group,
        availability_zone=form.availability_zone,
        hints=form.hints,
        filters=form.filters,
        filter_query=form.filter_query,
        enabled=form.enabled,
        time_budget_s=zone.conf.select_timeout,
        traced_by=tracing.current().request_id,
    )
    tracing.about(spec.request_id)
    if not spec.resources:
        raise BadRequest(
            f"Flavor {flavor.name} asks for no resources at all.",
            code="flavor_empty",
            field="server.flavorRef",
        )
    try:
        zone.schedulers.default.check(spec)
    except BadRequest as error:
        raise _as_asked(error, form) from None
    return spec


def _check_named_hosts(store: Store, form: BootForm) -> None:
    """Raise BadRequest for a host that this zone does not have."""
    names = frozenset(form.named_hosts.values())
    known = store.read(lambda tx: {name for name in names if hosts.id_of(tx, name)}) if names else names
    for field, name in form.named_hosts.items():
        if name not in known:
            message = f"{field}: there is no host {name!r} in this zone."
            raise BadRequest(message, code="host_not_found", field=field)


def _group_of(store: Store, caller: Caller, form: BootForm) -> Group:
    """Return the server group that the hint names. Raises BadRequest, also for contradicting hints."""
    if not form.group_ref:
        return NoGroup()
    group = server_groups.resolve(store, caller, form.group_ref, f"{form.hints_field}.group")
    if form.policy is Policy.AFFINITY and group.policy is not GroupPolicy.AFFINITY:
        raise BadRequest(
            f"{form.hints_field}.group_policy: the server group has the policy {group.policy.value}.",
            code="hints_contradict",
            field=f"{form.hints_field}.group_policy",
        )
    return group


def _as_asked(error: BadRequest, form: BootForm) -> BadRequest:
    """Return the refusal of a spec with the field named as in the user's body."""
    asked = {
        "filters": "server.filters",
        "filter_query": f"{form.hints_field}.query",
        "hints": form.hints_field,
    }
    member, dot, rest = error.field.partition(".")
    field = asked.get(member, member) + dot + rest
    says_field = error.message.startswith(error.field)
    message = field + error.message.removeprefix(error.field) if says_field else error.message
    return BadRequest(message, code=error.code, field=field)


def _write(
    zone: Zone,
    tx: Transaction,
    caller: Caller,
    form: BootForm,
    spec: RequestSpec,
    passthrough: Mapping[str, Any],
    received_at: float,
) -> _Stored:
    if (earlier := _earlier(zone, tx, caller, form)) is not None:
        if not earlier.is_same:
            raise Conflict(
                "This Idempotency-Key was used for another request.",
                code="idempotency_key_reused",
                field="Idempotency-Key",
            )
        return _Stored(earlier.accepted, None)
    zone.quotas.admit_boot(tx, caller.project_id, form.num_instances)
    reservation = _reservation(zone.uuid, caller, form, spec, received_at)
    lease = reservations.insert_leased(tx, reservation, zone.clock.now(), zone.conf.boot_lease)
    change = identity.next_change(tx)
    uuids = zone.clock.new_uuids(form.num_instances)
    first = _first_instance(zone, caller, form, spec, passthrough, uuids[0], received_at)
    instances.insert_alike(tx, change, first, dict(zip(uuids, _names(form), strict=True)))
    return _Stored(Accepted(spec.request_id, uuids), NewBoot(lease, reservation, uuids))


def _earlier(zone: Zone, tx: Transaction, caller: Caller, form: BootForm) -> _Earlier | None:
    """Read the boot that the project has made under the form's idempotency key; None without one."""
    if not form.idempotency_key:
        return None
    found = reservations.of_idempotency_key(tx, zone.uuid, caller.project_id, form.idempotency_key)
    if found is None:
        return None
    made = instances.read_reservation(tx, zone.uuid, found.id)
    return _Earlier(Accepted(found.id, tuple(i.uuid for i in made)), found.fingerprint == form.fingerprint)


def _names(form: BootForm) -> list[str]:
    if form.num_instances == 1:
        return [form.name]
    # OpenStack names the servers of one call in this way.
    return [f"{form.name}-{number}" for number in range(1, form.num_instances + 1)]


def _reservation(
    zone_uuid: str, caller: Caller, form: BootForm, spec: RequestSpec, now: float
) -> Reservation:
    whole = spec.policy is Policy.AFFINITY
    return reservations.of_request(
        spec,
        reservation_id=spec.request_id,
        caller_id=zone_uuid,
        user_id=caller.user_id,
        min_count=form.num_instances if whole else form.min_count,
        state=ReservationState.OPEN,
        idempotency_key=form.idempotency_key,
        fingerprint=form.fingerprint,
        now=now,
    )


def _first_instance(
    zone: Zone,
    caller: Caller,
    form: BootForm,
    spec: RequestSpec,
    passthrough: Mapping[str, Any],
    uuid: str,
    now: float,
) -> Instance:
    return instances.of_request(
        spec,
        uuid=uuid,
        reservation_id=spec.request_id,
        caller_id=zone.uuid,
        user_id=caller.user_id,
        position=0,
        name=form.name,
        passthrough=passthrough,
        now=now,
    )
