"""Moves of instances as this zone's admin sees them, and which of them a list has."""

from __future__ import annotations

from dataclasses import dataclass

from zonesched.model.move_steps import MoveKind


@dataclass(frozen=True)
class MigrationQuery:
    """Filters and page of a list of moves; "" leaves a filter out, and so does a time of 0.

    `host`: of either end, by name. `changed_since`, `changed_before`: UTC epoch seconds.
    """

    status: str = ""
    kind: str = ""
    server_uuid: str = ""
    user_id: str = ""
    project_id: str = ""
    host: str = ""
    source_host: str = ""
    changed_since: float = 0.0
    changed_before: float = 0.0
    limit: int = 1000
    marker: str = ""


@dataclass(frozen=True)
class MigrationView:
    """A move as its reader may see it; hosts are names, "" where there is none yet or they are not shown."""

    id: str
    server_uuid: str
    kind: MoveKind
    status: str
    source_host: str
    dest_host: str
    user_id: str
    project_id: str
    created_at: float
    updated_at: float
