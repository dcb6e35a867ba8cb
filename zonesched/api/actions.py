"""Actions on instances, and the list of those that were taken, in OpenStack's shapes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from zonesched.api.admin_password import random_password
from zonesched.api.answer import Answer, accepted, no_content, ok
from zonesched.api.call import Call
from zonesched.api.page import page_of
from zonesched.api.server_json import shown_json
from zonesched.errors import BadRequest, Conflict, ZoneBusy
from zonesched.model.action_reasons import MESSAGES
from zonesched.model.action_table import Action
from zonesched.model.console import ConsoleAnswer, ConsoleState, ReadConsole, last_lines
from zonesched.model.desired_call import DesiredAnswer
from zonesched.model.desired_state import Result
from zonesched.model.desired_wire import resizes_to_wire
from zonesched.model.instance_action import ActionView, DeleteServer, EvacuateServer, RebuildServer
from zonesched.model.instance_image import image_of
from zonesched.model.openstack_time import zoneless_time
from zonesched.services.hosts import evacuation
from zonesched.services.owners import action_history, actions, consoles, servers
from zonesched.services.parent import desired
from zonesched.services.select.faults import MESSAGES as FAULTS

WITH_USER_DATA, PAGED, WITH_HOSTS, WITH_PLACE = 57, 58, 62, 77
"""Microversions: with user data of a rebuilt server, with a link to the next page, with the hosts of events,
and with a place to unshelve to.
"""

LATE_RETRY_S = 2
"""Retry-After where an agent does not bring a console in time."""


def act(call: Call) -> Answer:
    """Take an action on an instance, wherever in the tree it is; answers before it is done."""
    uuid, asked = call.args["id"], _asked(call)
    if isinstance(asked, DeleteServer):
        servers.delete(call.zone, call.caller, uuid)
        return accepted(None)
    if isinstance(asked, EvacuateServer):
        evacuation.evacuate_server(call.zone, call.caller, uuid, fenced=asked.fenced)
        return ok(None)
    if isinstance(asked, ReadConsole):
        found = consoles.read(call.zone, call.caller, uuid, is_wanted=call.is_wanted)
        return ok({"output": last_lines(_output(found), asked.lines)})
    actions.act(call.zone, call.caller, uuid, asked)
    if asked is Action.CONFIRM_RESIZE:
        return no_content()
    if not isinstance(asked, RebuildServer):
        return accepted(None)
    view = servers.show(call.zone, call.caller, uuid)
    # The server has the new image once it is rebuilt, but OpenStack's clients print this answer then, too.
    rebuilt = replace(view, image=image_of(view.state.desired.image, view.image))
    server = shown_json(rebuilt, call.links, call.version)
    server["adminPass"] = random_password(call.zone.clock)
    if call.version.has(WITH_USER_DATA):
        # Nobody reads it back.
        server["user_data"] = None
    return accepted({"server": server}, Location=call.links.of("servers", uuid)[0]["href"])


def _asked(call: Call) -> Any:
    """Return the action asked for. Raises BadRequest for a place to unshelve to, which no zone takes."""
    if call.body.unshelve is not None and call.version.has(WITH_PLACE):
        message = "unshelve: takes no availability_zone and no host: the zones choose among all places."
        raise BadRequest(message, field="unshelve")
    return call.body.to_action()


def console(call: Call) -> Answer:
    """Read the console output of a parent's server."""
    found = consoles.read(call.zone, call.caller, call.args["id"], call.query.budget_s, call.is_wanted)
    return ok({"state": found.state.value, "output": found.output})


def _output(found: ConsoleAnswer) -> str:
    """Return an output that was read. Raises ZoneBusy and Conflict for any other outcome."""
    match found.state:
        case ConsoleState.READ:
            return found.output
        case ConsoleState.LATE:
            raise ZoneBusy("The server's agent did not answer in time.", LATE_RETRY_S, code="console_late")
        case ConsoleState.NOT_THERE:
            raise Conflict("The server is on no host now.", code="not_built", field="id")
        case ConsoleState.UNSUPPORTED:
            raise Conflict("The driver of the server's host reads no consoles.", code="console_unsupported")
        case ConsoleState.UNKNOWN_CALL:
            raise Conflict(
                "The zone that has the server does not know the action.", code="action_unsupported_by_zone"
            )


def act_on_boot(call: Call) -> Answer:
    """Take an action on all instances of a boot."""
    asked = _asked(call)
    if isinstance(asked, DeleteServer):
        raise BadRequest("forceDelete: name one server; it cannot delete a whole boot.", field="forceDelete")
    if isinstance(asked, EvacuateServer):
        raise BadRequest(
            "evacuate: name one server, or a host.", code="action_of_one_server", field="evacuate"
        )
    if isinstance(asked, ReadConsole):
        raise BadRequest(
            "os-getConsoleOutput: name one server; it cannot read a whole boot.",
            code="action_of_one_server",
            field="os-getConsoleOutput",
        )
    count, refused = actions.act_on_boot(call.zone, call.caller, call.args["id"], asked, call.query.caller)
    lines = [{"uuid": one.uuid, "error_code": one.code, "message": one.message} for one in refused]
    return accepted({"accepted": count, "refused": lines})


def take_desired(call: Call) -> Answer:
    """Store the desired states of a parent's instances."""
    found = desired.take(call.zone, call.caller, call.body.to_desired())
    return ok({"servers": [_desired_answer_json(one) for one in found]})


def _desired_answer_json(one: DesiredAnswer) -> dict[str, Any]:
    return {
        "uuid": one.uuid,
        "attempt": one.attempt,
        "state": one.taken.value,
        "generation": one.generation,
        "reboots": one.reboots,
        "rebuilds": one.rebuilds,
        "resizes": resizes_to_wire(one.resizes),
    }


def list_all(call: Call) -> Answer:
    """List the actions on an instance, newest first."""
    every = action_history.list_actions(call.zone, call.caller, call.args["id"])
    found = [one for one in every if call.query.has(_changed_at(one))]
    page, marker = page_of(call, found, lambda one: one.request_id)
    body: dict[str, Any] = {"instanceActions": [_action_json(action) for action in page]}
    if marker and call.version.has(PAGED):
        body["links"] = call.links.next_page(marker)
    return ok(body)


def show(call: Call) -> Answer:
    """Show one action by the id of its request, with its event."""
    found = action_history.show_action(call.zone, call.caller, call.args["id"], call.args["request_id"])
    # A zone does not keep on which host an event was; OpenStack Nova's text for none is empty.
    host = {"hostId": ""} if call.version.has(WITH_HOSTS) else {}
    return ok({"instanceAction": _action_json(found) | {"events": [_event_json(found) | host]}})


def _action_json(action: ActionView) -> dict[str, Any]:
    failed = action.result is Result.ERROR
    return {
        "action": action.action,
        "instance_uuid": action.uuid,
        "request_id": action.request_id,
        "user_id": action.user_id,
        "project_id": action.project_id,
        "start_time": zoneless_time(action.started_at),
        "updated_at": zoneless_time(_changed_at(action)),
        "finish_time": _time(action.finished_at),
        "message": _message(action.reason) if failed else None,
        "result": action.result.value if action.result is not None else None,
        "error_code": action.reason,
    }


def _changed_at(action: ActionView) -> float:
    return action.finished_at or action.started_at


def _event_json(action: ActionView) -> dict[str, Any]:
    results = {Result.DONE: "Success", Result.ERROR: "Error", Result.SUPERSEDED: "Superseded"}
    return {
        "event": f"compute_{action.action}_instance",
        "start_time": zoneless_time(action.started_at),
        "finish_time": _time(action.finished_at),
        "result": results[action.result] if action.result is not None else None,
        "details": " ".join(filter(None, (_message(action.reason), action.details))) or None,
        "traceback": None,
    }


def _message(reason: str) -> str:
    return (MESSAGES.get(reason) or FAULTS.get(reason, "The action failed.")) if reason else ""


def _time(epoch_s: float) -> str | None:
    return zoneless_time(epoch_s) if epoch_s else None
