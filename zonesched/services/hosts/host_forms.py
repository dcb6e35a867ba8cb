"""An agent's report of its hosts, checked and turned into rows."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

from zonesched.conf import Conf
from zonesched.errors import BadRequest
from zonesched.model.capacity import Inventory
from zonesched.model.host_row import HostFacts, HostRow
from zonesched.model.request_spec import DISK_GB, MEMORY_MB, VCPU
from zonesched.model.views import HostForm, InventoryForm
from zonesched.seams import Clock

MAX_AMOUNT = 2**31 - 1
_CLASS = re.compile(r"[A-Z0-9_]{1,64}")


def host_rows(conf: Conf, clock: Clock, hosts: Sequence[HostForm]) -> list[HostRow]:
    """Make a row per host, with the id it gets if it is new. Raises BadRequest, which names the field."""
    _check_names(hosts)
    defaults = _default_ratios(conf)
    return [_host_row(clock, form, defaults) for form in hosts]


def _check_names(hosts: Sequence[HostForm]) -> None:
    seen: set[str] = set()
    for position, form in enumerate(hosts):
        if not form.name or form.name in seen:
            raise BadRequest(
                f"hosts[{position}].name must be present and unique.",
                code="duplicate_host",
                field=f"hosts[{position}].name",
            )
        seen.add(form.name)


def _default_ratios(conf: Conf) -> Mapping[str, float]:
    return {
        VCPU: conf.cpu_allocation_ratio,
        MEMORY_MB: conf.ram_allocation_ratio,
        DISK_GB: conf.disk_allocation_ratio,
    }


def _host_row(clock: Clock, form: HostForm, defaults: Mapping[str, float]) -> HostRow:
    facts = HostFacts(
        id=clock.new_uuid(),
        name=form.name,
        address=form.address,
        availability_zone=form.availability_zone,
        capabilities=form.capabilities,
        traits=form.traits,
    )
    return HostRow(
        facts,
        {
            name: _inventory(f"hosts.{form.name}.inventories.{name}", name, reported, defaults)
            for name, reported in form.inventories.items()
        },
        metrics=form.metrics,
    )


def _inventory(field: str, name: str, form: InventoryForm, defaults: Mapping[str, float]) -> Inventory:
    ratio = defaults.get(name, 1.0) if form.allocation_ratio is None else form.allocation_ratio
    rules = [
        (bool(_CLASS.fullmatch(name)), "must be named by 1 to 64 of A-Z, 0-9 and _"),
        (0 <= form.total <= MAX_AMOUNT, f"total must be from 0 to {MAX_AMOUNT}"),
        (0 <= form.reserved <= MAX_AMOUNT, f"reserved must be from 0 to {MAX_AMOUNT}"),
        (math.isfinite(ratio) and 0 <= ratio <= 1_000_000, "allocation_ratio must be from 0 to 1000000"),
        (
            1 <= form.min_unit <= form.max_unit <= MAX_AMOUNT,
            f"must have 1 <= min_unit <= max_unit <= {MAX_AMOUNT}",
        ),
        (1 <= form.step_size <= MAX_AMOUNT, f"step_size must be from 1 to {MAX_AMOUNT}"),
    ]
    for holds, rule in rules:
        if not holds:
            raise BadRequest(f"{field}: {rule}.", field=field)
    return Inventory(form.total, form.reserved, ratio, form.min_unit, form.max_unit, form.step_size)
