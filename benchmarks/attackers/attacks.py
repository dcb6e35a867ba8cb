"""All kinds of attack, and what each role leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from . import admin, agent, child, dashboard, handshakes, member, parent, stranger
from .attack import Attack, Role
from .attacker import Attacker

ALL = (
    *stranger.ATTACKS,
    *handshakes.ATTACKS,
    *dashboard.ATTACKS,
    *member.ATTACKS,
    *parent.ATTACKS,
    *agent.ATTACKS,
    *admin.ATTACKS,
    *child.ATTACKS,
)
BY_NAME: Mapping[str, Attack] = {attack.name: attack for attack in ALL}

CLEAN_UPS: Mapping[Role, Callable[[Attacker], None]] = {
    Role.MEMBER: member.clean_up,
    Role.PARENT: parent.clean_up,
    Role.CHILD: child.leave,
}
"""How the instances of an attacker are deleted after its attack, as its operator would."""
