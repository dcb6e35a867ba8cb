"""Filters, order and page of a list of instances."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass


class SortKey(enum.Enum):
    """Members by which a list of instances can be ordered, by OpenStack Nova's names."""

    CREATED_AT = "created_at"
    UPDATED_AT = "updated_at"
    NAME = "display_name"
    UUID = "uuid"
    PROJECT = "project_id"
    USER = "user_id"
    LAUNCH_INDEX = "launch_index"
    FLAVOR = "instance_type_id"
    LOCK = "locked_by"
    VM_STATE = "vm_state"
    POWER_STATE = "power_state"


@dataclass(frozen=True)
class ListOrder:
    """One key of a list's order."""

    key: SortKey
    is_descending: bool


NEWEST_FIRST = (ListOrder(SortKey.CREATED_AT, is_descending=True),)


@dataclass(frozen=True)
class AskedStates:
    """OpenStack's states that all servers of a list have; "" and None for any."""

    vm_state: str = ""
    task_state: str = ""
    power_state: int | None = None


ANY_STATES = AskedStates()


@dataclass(frozen=True)
class ServerQuery:
    """Filters of a list of instances; "" or nothing leaves a filter out. `limit` is the page's length.

    `changed_since`, `changed_before`: UTC epoch seconds; 0 for all. With `changed_since`, deleted instances
    are listed too. `order` has the first key first; instances that are equal by all keys are ordered by uuid,
    in the direction of the first. `name` is a part of it. `project_id`: only among all tenants.
    `host`: the name of a host of this zone. `locked`: None for all.
    """

    reservation_id: str = ""
    statuses: Sequence[str] = ()
    flavor_id: str = ""
    changed_since: float = 0.0
    changed_before: float = 0.0
    name: str = ""
    uuid: str = ""
    user_id: str = ""
    project_id: str = ""
    host: str = ""
    order: Sequence[ListOrder] = NEWEST_FIRST
    limit: int = 1000
    marker: str = ""
    all_tenants: bool = False
    locked: bool | None = None
