"""Reasons of actions that failed, as stable codes with their messages."""

from __future__ import annotations

from collections.abc import Mapping

from zonesched.model import move_steps

MESSAGES: Mapping[str, str] = {
    "action_unsupported_by_zone": "The zone that has the server is of a version without this action.",
    **move_steps.MESSAGES,
    "domain_changed_outside": "The server was changed on its host, past its zone.",
    "domain_crashed": "The server crashed.",
    "domain_destroyed": "The server was powered off on its host, past its zone.",
    "domain_disk_failed": "The server was paused, since its host could not write its disk or read it.",
    "domain_ended": "The server shut itself down.",
    "driver_failed": "The driver of the host failed.",
    "ended_by_itself": "The server ended by itself.",
    "gone_in_child": "The zone that should have the server does not have it.",
    "host_evacuated": "The host of the server was evacuated before the action was done.",
    "host_changed": "The server came to another host while the action was taken.",
    "image_file_missing": "The host of the server has no file of the image.",
    "image_too_large": "The image does not fit into the flavor's disk.",
    "image_unfit": "The host of the server does not take the image.",
    "pause_unsupported": "The driver of the host cannot pause servers.",
    "process_ended": "The process of the server ended by itself.",
    "process_failed": "The process of the server ended with an error.",
    "process_killed": "The process of the server was killed.",
    "reboot_unsupported": "The driver of the host cannot reboot servers.",
    "rebuild_unsupported": "The driver of the host cannot rebuild servers.",
    "repaired": "A repair of this zone's rows has ended the action.",
    "server_deleted": "The server was deleted before the action was done.",
    "start_unsupported": "The driver of the host cannot start stopped servers.",
    "stop_unsupported": "The driver of the host cannot stop servers.",
    "suspend_unsupported": "The driver of the host cannot suspend servers.",
    "zone_routing_disabled": "A zone on the way to the server passes no calls on.",
}
"""Messages by the stable reason code of an action that failed."""


def for_parent(reason: str) -> str:
    """Reduce a reason to one of the stable codes for a parent; an agent's own text stays in this zone."""
    return reason if reason in MESSAGES or not reason else "driver_failed"
