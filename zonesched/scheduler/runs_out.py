"""Reasons why hosts with instances of a request take no further one, such as the resource that runs out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Ints
from zonesched.model.build_plan import FunnelStep
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import DISK_GB, MEMORY_MB, VCPU
from zonesched.scheduler.funnel import answers_of

CODES = {VCPU: "not_enough_vcpus", MEMORY_MB: "not_enough_ram", DISK_GB: "not_enough_disk"}
OF_OTHER_CLASSES = "not_enough_resources"
NO_ROOM = ("free_slots", "no_free_slots")


def reasons_of(hosts: HostView, filters: Sequence[BaseHostFilter]) -> tuple[FunnelStep, ...]:
    """Return one step per reason why these full hosts take no further instance, most hosts first.

    A host counts once: for the scarcest resource class, relative to the amount of one instance; if all
    classes suffice, for the first of `filters` that refuses it. Raise FilterFailed.
    """
    reasons: Counter[tuple[str, str]] = Counter()
    open_rows = _count_classes(hosts, reasons)
    for host_filter in filters:
        if not len(open_rows):
            break
        copies = None if hosts.copies is None else hosts.copies[open_rows]
        some = hosts.pick(hosts.row_numbers[open_rows], copies)
        passes = answers_of(host_filter, some, hosts.spec)
        reasons[host_filter.name, host_filter.code] += int(np.count_nonzero(~passes))
        open_rows = open_rows[passes]
    reasons[NO_ROOM] += len(open_rows)
    return _chain(len(hosts), +reasons)


def _count_classes(hosts: HostView, reasons: Counter[tuple[str, str]]) -> Ints:
    """Count the hosts that lack a resource class; return the positions of the others."""
    wanted = hosts.spec.resources
    if not wanted:
        return np.arange(len(hosts), dtype=np.int64)
    shares = np.stack([hosts.left(name) / amount for name, amount in wanted.items()])
    scarcest, is_full = shares.argmin(axis=0), shares.min(axis=0) < 1.0
    for number, name in enumerate(wanted):
        count = int(np.count_nonzero(is_full & (scarcest == number)))
        reasons[name, CODES.get(name, OF_OTHER_CLASSES)] += count
    return np.flatnonzero(~is_full)


def _chain(hosts: int, reasons: Counter[tuple[str, str]]) -> tuple[FunnelStep, ...]:
    steps, before = [], hosts
    for (name, code), count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
        steps.append(FunnelStep(name, code, before, before - count))
        before -= count
    return tuple(steps)
