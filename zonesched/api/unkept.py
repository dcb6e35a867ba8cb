"""Calls of OpenStack Nova for what a zone does not keep: each is answered by the name of what is missing.

A server's lists of such things are empty (`server_details`); one of them is not found, and none is added.
"""

from __future__ import annotations

from typing import NoReturn

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.errors import Conflict, Gone, NotFound
from zonesched.model.unsupported_action import NETWORKS
from zonesched.services.hosts import aggregates
from zonesched.services.owners import server_details

# -- a server's networks -----------------------------------------------------------------------------------


def show_network(call: Call) -> Answer:
    """Find no network of which a server has addresses: a zone keeps none."""
    _not_found(call, "network_not_found", "The server has no address in such a network.")


def attach_interface(call: Call) -> Answer:
    """Refuse to attach a network interface: a zone keeps no networks."""
    _refuse(call, NETWORKS.code, NETWORKS.message)


def show_interface(call: Call) -> Answer:
    """Find no network interface of a server: a zone keeps none."""
    _not_found(call, "interface_not_found", "The server has no such network interface.")


def detach_interface(call: Call) -> Answer:
    """Find no network interface to detach: a zone keeps none."""
    _not_found(call, "interface_not_found", "The server has no such network interface.")


# -- a server's volumes ------------------------------------------------------------------------------------


def attach_volume(call: Call) -> Answer:
    """Refuse to attach a volume: a zone keeps none."""
    _refuse(call, "volumes_unsupported", "A zone keeps no volumes.")


def show_volume(call: Call) -> Answer:
    """Find no volume of a server: a zone keeps none."""
    _not_found(call, "volume_not_attached", "The server has no such volume.")


def change_volume(call: Call) -> Answer:
    """Find no volume to change or swap: a zone keeps none."""
    _not_found(call, "volume_not_attached", "The server has no such volume.")


def detach_volume(call: Call) -> Answer:
    """Find no volume to detach: a zone keeps none."""
    _not_found(call, "volume_not_attached", "The server has no such volume.")


# -- a server's shares -------------------------------------------------------------------------------------


def list_shares(call: Call) -> Answer:
    """List a server's shares, of which a zone keeps none."""
    _existing(call)
    return ok({"shares": []})


def attach_share(call: Call) -> Answer:
    """Refuse to attach a share: a zone keeps none."""
    _refuse(call, "shares_unsupported", "A zone keeps no shares.")


def show_share(call: Call) -> Answer:
    """Find no share of a server: a zone keeps none."""
    _not_found(call, "share_not_attached", "The server has no such share.")


def detach_share(call: Call) -> Answer:
    """Find no share to detach: a zone keeps none."""
    _not_found(call, "share_not_attached", "The server has no such share.")


# -- what is no server's -----------------------------------------------------------------------------------


def show_console_token(call: Call) -> Answer:
    """Find no token of a console: a zone gives out none."""
    raise NotFound(
        "There is no such token: a zone has no graphical consoles.", code="console_token_not_found"
    )


def list_agent_builds(call: Call) -> Answer:
    """Refuse the builds of guests' agents, which OpenStack Nova has removed."""
    _agent_builds_gone()


def add_agent_build(call: Call) -> Answer:
    """Refuse the builds of guests' agents, which OpenStack Nova has removed."""
    _agent_builds_gone()


def change_agent_build(call: Call) -> Answer:
    """Refuse the builds of guests' agents, which OpenStack Nova has removed."""
    _agent_builds_gone()


def remove_agent_build(call: Call) -> Answer:
    """Refuse the builds of guests' agents, which OpenStack Nova has removed."""
    _agent_builds_gone()


def _agent_builds_gone() -> NoReturn:
    raise Gone("OpenStack Nova has removed the builds of guests' agents; a zone never had any.")


# -- images on an aggregate's hosts ------------------------------------------------------------------------


def cache_images(call: Call) -> Answer:
    """Refuse to have an aggregate's hosts fetch images: no agent fetches any."""
    aggregates.show(call.zone.store, call.args["id"])
    raise Conflict(
        "No agent fetches images: their files are on the hosts before servers are built from them.",
        code="image_cache_unsupported",
    )


def _existing(call: Call) -> None:
    """Raise NotFound for a server that the caller does not have."""
    server_details.read(call.zone, call.caller, call.args["id"])


def _refuse(call: Call, code: str, message: str) -> NoReturn:
    _existing(call)
    raise Conflict(message, code=code)


def _not_found(call: Call, code: str, message: str) -> NoReturn:
    _existing(call)
    raise NotFound(message, code=code)
