"""Kinds of attack: the attacker, the deed, and the deeds' common description."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from .attacker import Attacker


class Role(enum.Enum):
    """The attacker; the value is also the first part of each attack's name."""

    STRANGER = "stranger"
    MEMBER = "member"
    PARENT = "parent"
    CHILD = "child"
    AGENT = "agent"
    ADMIN = "admin"


ZONE_OF = {
    Role.STRANGER: "middle",
    Role.MEMBER: "root",
    Role.PARENT: "middle",
    Role.CHILD: "root",
    Role.AGENT: "leaf",
    Role.ADMIN: "leaf",
}
"""Name of the attacked zone by role."""


@dataclass(frozen=True)
class Attack:
    """One kind of attack.

    `is_silent`: a child withholds its answers, so a select that asks it may use up its time budget (P6).
    `min_seconds`: the shortest time in which the attack can do its work. `on_tls`: it needs zones that serve
    https.
    """

    name: str
    does: str
    run: Callable[[Attacker], None]
    is_silent: bool = False
    min_seconds: float = 0.0
    on_tls: bool = False

    @property
    def role(self) -> Role:
        return Role(self.name.partition("-")[0])

    @property
    def zone(self) -> str:
        """The attacked zone."""
        return ZONE_OF[self.role]
