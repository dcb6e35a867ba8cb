"""Child zones, the info of this zone, and the calls of the distributed scheduler: select and boot."""

from __future__ import annotations

from typing import Any

from zonesched import tracing
from zonesched.api.answer import Answer, accepted, no_content, ok
from zonesched.api.call import Call
from zonesched.api.servers import boot_form
from zonesched.model.caller import Role
from zonesched.model.decision_trace import trace_to_wire
from zonesched.model.openstack_time import iso_time
from zonesched.model.sealed_offer import SealedOffer
from zonesched.model.views import ChildView, DryRunView
from zonesched.services.boot import boot as booting
from zonesched.services.boot import dry_run as dry_running
from zonesched.services.children import children, draining
from zonesched.services.select import info as zone_info
from zonesched.services.select import parent_offer
from zonesched.services.select.hinted_instances import with_uuids_here


def list_brief(call: Call) -> Answer:
    """List the child zones, with id, name and state."""
    return ok(
        {"zones": [_brief(child) for child in children.list_children(call.zone.store, call.zone.children)]}
    )


def list_detail(call: Call) -> Answer:
    """List the child zones, in full but for credentials."""
    return ok(
        {"zones": [_full(child) for child in children.list_children(call.zone.store, call.zone.children)]}
    )


def show(call: Call) -> Answer:
    """One child zone."""
    return ok({"zone": _full(children.show(call.zone.store, call.zone.children, call.args["id"]))})


def add(call: Call) -> Answer:
    """Add a child zone; it takes part once its info was read."""
    return Answer(201, {"zone": _full(children.add(call.zone, call.body.to_form()))})


def change(call: Call) -> Answer:
    """Change a child zone."""
    child = children.change(call.zone, call.args["id"], call.body.to_change())
    return ok({"zone": _full(child)})


def act(call: Call) -> Answer:
    """Let instances leave a disabled child zone; each is placed anew once nothing of it is left there."""
    asked = call.body.drain
    found = draining.drain(call.zone, call.caller, call.args["id"], asked.count, retry=asked.retry)
    return accepted(
        {
            "drain": {
                "asked": list(found.asked),
                "on_their_way": list(found.on_their_way),
                "leaving": found.leaving,
                "waiting": found.waiting,
                "held_up": found.held_up,
                "staying": [dict(vars(one)) for one in found.staying],
                "staying_count": found.staying_count,
            }
        }
    )


def remove(call: Call) -> Answer:
    """Remove a child zone; 409 while instances are there, unless forced."""
    children.remove(call.zone, call.args["id"], call.query.force)
    return no_content()


def info(call: Call) -> Answer:
    """Report name and capabilities of this zone, and min,max of the hosts of its subtree."""
    return ok({"zone": dict(zone_info.report(call.zone, call.is_wanted))})


def select(call: Call) -> Answer:
    """Return the offers of this zone and its child zones for a request; writes and holds nothing."""
    spec = with_uuids_here(call.zone.store, call.caller, call.body.request_spec.to_spec())
    tracing.about(spec.request_id)
    offer = parent_offer.answer_parent(call.zone, call.caller, spec, call.is_wanted, call.body.page.to_page())
    return ok(_offer_json(offer))


def boot(call: Call) -> Answer:
    """Boot `num_instances` at once over the whole tree; the answer is a reservation to follow.

    With `dry_run` nothing is written anywhere, and the answer is how many would fit.
    """
    if call.body.dry_run:
        found = dry_running.dry_run(
            call.zone, call.caller, boot_form(call), record=call.body.record, is_wanted=call.is_wanted
        )
        return ok(_dry_run_json(found, call.caller.role is Role.ADMIN))
    made = booting.accept(call.zone, call.caller, boot_form(call))
    return accepted({"reservation_id": made.reservation_id})


def _dry_run_json(found: DryRunView, with_zones: bool) -> dict[str, Any]:
    body: dict[str, Any] = {
        "num_instances": found.num_instances,
        "fits": found.fits,
        "complete": found.complete,
        "runs_out": [{"filter": what, "code": code} for what, code in found.runs_out],
        "refused_by": list(found.refused_by),
    }
    if with_zones:
        why = trace_to_wire(found.trace)
        why["own"]["fits"] = found.fits_in.get("", 0)
        for child in why["children"]:
            child["fits"] = found.fits_in.get(child["id"], 0)
        body["why"] = why
    record = {"record": dict(found.record)} if found.record else {}
    return {"dry_run": body, **record}


def _offer_json(offer: SealedOffer) -> dict[str, Any]:
    return {
        "version": 1,
        "weights": [entry._asdict() for entry in offer.weights],
        "alternates": [entry._asdict() for entry in offer.alternates],
        "bundles": [bundle._asdict() for bundle in offer.bundles],
        "complete": offer.complete,
        "database_away": offer.database_away,
        "more": offer.more,
        "expires_in": offer.expires_in_s,
        "why": [dict(line) for line in offer.why],
        "runs_out": [dict(line) for line in offer.runs_out],
    }


def _brief(child: ChildView) -> dict[str, Any]:
    return {"id": child.id, "name": child.name, "is_active": child.is_active, "state": child.state}


def _full(child: ChildView) -> dict[str, Any]:
    return {
        **_brief(child),
        "api_url": child.api_url,
        "username": child.username,
        "weight_offset": child.weight_offset,
        "weight_scale": child.weight_scale,
        "last_error": child.last_error,
        "seen_at": iso_time(child.seen_at) if child.seen_at else None,
    }
