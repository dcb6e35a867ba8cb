"""Bodies of OpenStack's actions that no zone can do: of the right form they are refused with the reason."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from zonesched.api.schemas.fields import Name, Schema, SpelledAmount, Text, TextMap


class FixedNetwork(Schema):
    network_id: Name = Field(alias="networkId")


class Address(Schema):
    address: Name


class FloatingAddress(Schema):
    address: Name
    fixed_address: Name | None = None


class GroupName(Schema):
    name: Name


class Password(Schema):
    admin_pass: Text = Field(alias="adminPass")


class Backup(Schema):
    name: Name
    backup_type: Text
    rotation: SpelledAmount
    metadata: TextMap = Field(default_factory=dict)


class Snapshot(Schema):
    name: Name
    metadata: TextMap = Field(default_factory=dict)


class VncConsole(Schema):
    type: Literal["novnc", "xvpvnc"]


class SpiceConsole(Schema):
    type: Literal["spice-html5"]


class RdpConsole(Schema):
    type: Literal["rdp-html5"]


class SerialConsole(Schema):
    type: Literal["serial"]


class Rescue(Schema):
    admin_pass: Text | None = Field(default=None, alias="adminPass")
    rescue_image_ref: Text | None = None


class LiveMigration(Schema):
    host: Name | None = None
    block_migration: bool | Literal["auto"] = "auto"
    disk_over_commit: bool = False
    force: bool = False


class State(Schema):
    state: Literal["active", "error"]


def nothing(value: object) -> object:
    """Read an object without members as null: OpenStack Nova does not look at the value."""
    return None if value == {} else value


Nothing = Annotated[None, BeforeValidator(nothing)]
"""The value of an action without members."""


def _named(key: str) -> Any:
    return Field(default=None, alias=key)


class UnsupportedActions(Schema):
    """Actions of OpenStack that are refused, whatever the server's status."""

    add_fixed_ip: FixedNetwork | None = _named("addFixedIp")
    add_floating_ip: FloatingAddress | None = _named("addFloatingIp")
    add_security_group: GroupName | None = _named("addSecurityGroup")
    change_password: Password | None = _named("changePassword")
    create_backup: Backup | None = _named("createBackup")
    create_image: Snapshot | None = _named("createImage")
    inject_network_info: Nothing = _named("injectNetworkInfo")
    get_rdp_console: RdpConsole | None = _named("os-getRDPConsole")
    get_spice_console: SpiceConsole | None = _named("os-getSPICEConsole")
    get_serial_console: SerialConsole | None = _named("os-getSerialConsole")
    get_vnc_console: VncConsole | None = _named("os-getVNCConsole")
    migrate_live: LiveMigration | None = _named("os-migrateLive")
    reset_state: State | None = _named("os-resetState")
    remove_fixed_ip: Address | None = _named("removeFixedIp")
    remove_floating_ip: Address | None = _named("removeFloatingIp")
    remove_security_group: GroupName | None = _named("removeSecurityGroup")
    rescue: Rescue | None = None
    reset_network: Nothing = _named("resetNetwork")
    shelve_offload: Nothing = _named("shelveOffload")
    trigger_crash_dump: Nothing = None
    unrescue: Nothing = None
