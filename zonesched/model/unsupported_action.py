"""OpenStack's actions on servers that no zone can do, with the code and the message of their refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from zonesched.errors import BadRequest, Conflict, ZoneschedError


@dataclass(frozen=True)
class Lack:
    """A reason why actions are refused before anything is changed."""

    code: str
    message: str
    error: type[ZoneschedError] = Conflict


NETWORKS = Lack("networks_unsupported", "A zone keeps no networks.")
PASSWORD = Lack("password_unsupported", "No driver can set a password in a server.")
RESCUE = Lack("rescue_unsupported", "No driver can boot a server from a rescue image.")
SNAPSHOT = Lack("snapshot_unsupported", "No driver can make an image of a server.")
REMOTE_CONSOLE = Lack(
    "console_type_unavailable", "A zone has no graphical and no serial consoles.", BadRequest
)
CRASH_DUMP = Lack("crash_dump_unsupported", "No driver can trigger a crash dump in a server.")
STATUS = Lack("status_is_derived", "The status of a server follows from its agent's reports.")
LIVE_MIGRATION = Lack("live_migration_unsupported", "No driver can move a server while it runs.")
OFFLOAD = Lack("offloads_by_itself", "A shelved server is offloaded at once, by itself.")

ADMINS_ACTIONS = frozenset({"os-migrateLive", "os-resetState", "shelveOffload"})
"""Actions that members are refused first, since only admins may take them in OpenStack Nova."""

LACK_OF: Mapping[str, Lack] = {
    "addFixedIp": NETWORKS,
    "addFloatingIp": NETWORKS,
    "addSecurityGroup": NETWORKS,
    "changePassword": PASSWORD,
    "createBackup": SNAPSHOT,
    "createImage": SNAPSHOT,
    "injectNetworkInfo": NETWORKS,
    "os-getRDPConsole": REMOTE_CONSOLE,
    "os-getSPICEConsole": REMOTE_CONSOLE,
    "os-getSerialConsole": REMOTE_CONSOLE,
    "os-getVNCConsole": REMOTE_CONSOLE,
    "os-migrateLive": LIVE_MIGRATION,
    "os-resetState": STATUS,
    "removeFixedIp": NETWORKS,
    "removeFloatingIp": NETWORKS,
    "removeSecurityGroup": NETWORKS,
    "rescue": RESCUE,
    "resetNetwork": NETWORKS,
    "shelveOffload": OFFLOAD,
    "trigger_crash_dump": CRASH_DUMP,
    "unrescue": RESCUE,
}
"""The lack for which each action is refused, by the key of its body."""
