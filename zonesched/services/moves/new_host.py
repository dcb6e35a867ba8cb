"""Choice of a host for a move: the ordinary choice among the local hosts.

The present one is left out, except for a resize.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from zonesched.errors import ZoneschedError
from zonesched.model.decision_trace import DecisionTrace, LocalTrace
from zonesched.model.instance_flavor import flavor_of
from zonesched.model.instance_image import image_of
from zonesched.model.move_steps import MoveKind
from zonesched.model.own_zone import for_next_place
from zonesched.model.request_context import MoveFrom
from zonesched.model.request_spec import Policy, RequestSpec, Unweighed
from zonesched.scheduler.offer import OfferRequest
from zonesched.services.moves import beginning
from zonesched.services.select import select
from zonesched.services.zone import Zone
from zonesched.store import instance_states, reservations
from zonesched.store.instances import Instance
from zonesched.store.moves import Move

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """Local hosts for a move, best first, by id; `why` has the funnel, also where there are none."""

    host_ids: Sequence[str]
    why: DecisionTrace


def spec_of(zone: Zone, instance: Instance, kind: MoveKind) -> RequestSpec:
    """Return the request that an instance came with, for this instance alone, as it is or is to be now.

    Hosts that an admin named for its boot do not hold for a move, as in OpenStack Nova.
    """
    key = instance.caller_id, instance.reservation_id
    spec = zone.store.read(lambda tx: reservations.read_one(tx, *key)).spec
    state = zone.store.read(lambda tx: instance_states.read(tx, [instance.uuid]))[instance.uuid].state
    return replace(
        spec,
        num_instances=1,
        policy=Policy.EACH,
        alternates=zone.conf.select_alternates,
        flavor=flavor_of(
            state.desired.flavor if kind is MoveKind.RESIZE else state.present_flavor, spec.flavor
        ),
        image=image_of(state.desired.image, spec.image),
        hints=for_next_place(spec.hints),
        weighing=Unweighed(),
    )


def choose(zone: Zone, instance: Instance, spec: RequestSpec, move: Move, present_host_id: str) -> Choice:
    """Choose among the local hosts; the filters, weighers and group rules of a boot hold.

    A resized instance may stay on its host, where its own old place does not count against its group. Hosts
    that refused the boot count as all others: this is another request.
    """
    must_stay = zone.store.read(lambda tx: beginning.must_stay(tx, instance))
    if move.kind is MoveKind.RESIZE:
        moves = MoveFrom(asked_host=move.source_host if must_stay else "", group_member_on=present_host_id)
    elif must_stay:
        return Choice((), select.refused("affinity", "group_elsewhere"))
    else:
        moves = MoveFrom(present_host_id, move.asked_host)
    try:
        context = select.context_of(zone, spec, instance.caller_id)
        # A host where a build of its boot failed, however long ago, may have been mended since.
        context = replace(context, moves=moves, tried_hosts=frozenset())
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
