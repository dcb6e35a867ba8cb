"""Choice of a host for a move: the ordinary choice among the local hosts, without the present one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from zonesched.errors import ZoneschedError
from zonesched.model.decision_trace import DecisionTrace, LocalTrace
from zonesched.model.instance_image import image_of
from zonesched.model.own_zone import FORCE_HINTS
from zonesched.model.placement import LIVING_STATUSES
from zonesched.model.request_context import MoveFrom
from zonesched.model.request_spec import Policy, RequestSpec, Unweighed
from zonesched.scheduler.offer import OfferRequest
from zonesched.services.select import select
from zonesched.services.zone import Zone
from zonesched.store import instance_states, instances, reservations
from zonesched.store.instances import Instance
from zonesched.store.store import Transaction

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """Local hosts for a move, best first, by id; `why` has the funnel, also where there are none."""

    host_ids: Sequence[str]
    why: DecisionTrace


def spec_of(zone: Zone, instance: Instance) -> RequestSpec:
    """Return the request that an instance came with, for this instance alone.

    Hosts that an admin forced for its boot do not hold for a move, as in OpenStack Nova.
    """
    key = instance.caller_id, instance.reservation_id
    spec = zone.store.read(lambda tx: reservations.read_one(tx, *key)).spec
    state = zone.store.read(lambda tx: instance_states.read(tx, [instance.uuid]))[instance.uuid].state
    hints = {hint: value for hint, value in spec.hints.items() if hint not in FORCE_HINTS}
    return replace(
        spec,
        num_instances=1,
        policy=Policy.EACH,
        alternates=zone.conf.select_alternates,
        image=image_of(state.desired.image, spec.image),
        hints=hints,
        weighing=Unweighed(),
    )


def choose(zone: Zone, instance: Instance, spec: RequestSpec, moves: MoveFrom) -> Choice:
    """Choose among the local hosts; the filters, weighers and group rules of a boot hold."""
    if _must_stay(zone, instance):
        return Choice((), select.refused("affinity", "group_elsewhere"))
    try:
        context = replace(select.context_of(zone, spec, instance.caller_id), moves=moves)
        with zone.hosts.for_request(spec) as found:
            capabilities = select.own_capabilities(zone.conf)
            request = OfferRequest(found.table, spec, context, zone_capabilities=capabilities)
            scheduler, request = zone.schedulers.prepare(request, {}, has_children=False)
            offer = scheduler.offer(replace(request, scored=select.BEST_HOSTS))
            picked = [pick.host_id for pick in (*offer.picks, *offer.alternates)]
            steps = (*found.steps, *offer.why)
    except ZoneschedError as error:
        log.warning("the select for a move of %s failed: %s", instance.uuid, error.message)
        return Choice((), select.failed(error))
    return Choice(picked, DecisionTrace(LocalTrace(steps, len(picked), offer.runs_out, offer.best)))


def _must_stay(zone: Zone, instance: Instance) -> bool:
    """Tell whether others of its boot live that were asked for on the same host."""

    def fn(tx: Transaction) -> bool:
        key = instance.caller_id, instance.reservation_id
        if reservations.read_one(tx, *key).spec.policy is not Policy.AFFINITY:
            return False
        members = instances.members(tx, *key)
        return any(one.uuid != instance.uuid and one.status in LIVING_STATUSES for one in members)

    return zone.store.read(fn)
