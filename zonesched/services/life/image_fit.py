"""Whether hosts take a new image for the instances that they have: asked before a rebuild is written.

Only the filters that hold for a rebuild are asked, and only about the host that has the instance.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from zonesched.errors import ZoneschedError
from zonesched.filters.contract import BaseHostFilter
from zonesched.model.arrays import Bools
from zonesched.model.desired_state import NEW
from zonesched.model.host_table import HostTable
from zonesched.model.host_view import HostView
from zonesched.model.observed_state import Observed
from zonesched.model.present_request import as_now
from zonesched.model.request_spec import Image, RequestSpec
from zonesched.scheduler.funnel import answers_of, check_filter
from zonesched.scheduler.schedulers import Schedulers
from zonesched.services.zone import Zone
from zonesched.store import instance_states, instances, placements, reservations
from zonesched.store.placements import ClaimedHost, Placement
from zonesched.store.store import Transaction

log = logging.getLogger(__name__)

UNFIT, HOST_CHANGED = "image_unfit", "host_changed"


@dataclass(frozen=True)
class ImageFit:
    """For each instance on a local host, by uuid and attempt, whether that host takes its new image."""

    takes: Mapping[tuple[str, int], bool]

    def refusal(self, place: Placement) -> str:
        """Return the reason why an instance cannot be rebuilt at this place, "" where it can."""
        if not isinstance(place.where, ClaimedHost) or self.takes.get(place.key):
            return ""
        return UNFIT if place.key in self.takes else HOST_CHANGED


def refused(tx: Transaction, reasons: Mapping[str, str]) -> list[tuple[str, Observed]]:
    """Return the observed state of each instance whose reason is not "": its rebuild is refused."""
    rows = instance_states.read(tx, [uuid for uuid, reason in reasons.items() if reason])
    return [(uuid, row.state.refused(reasons[uuid])) for uuid, row in rows.items()]


@dataclass(frozen=True)
class _Alike:
    """Instances of one request that get one image: their places, and the request with that image."""

    spec: RequestSpec
    places: list[tuple[Placement, str]] = field(default_factory=list)
    """Each with the id of its host."""


def ask(zone: Zone, images: Mapping[str, Image]) -> ImageFit:
    """Ask the hosts of these instances, by uuid; those that are in child zones are asked there."""
    found = zone.store.read(lambda tx: _local(tx, images)) if images else []
    takes: dict[tuple[str, int], bool] = {}
    if found:
        with zone.hosts.current() as table:
            for alike in found:
                taking = _taking(zone.schedulers_of_all_hosts, table, alike)
                takes |= {place.key: host_id in taking for place, host_id in alike.places}
    return ImageFit(takes)


def _local(tx: Transaction, images: Mapping[str, Image]) -> list[_Alike]:
    uuids = list(images)
    rows = instances.read_by_uuid(tx, uuids)
    states = instance_states.read(tx, uuids)
    boots = reservations.read_ids(tx, sorted({row.reservation_id for row in rows.values()}))
    found: dict[tuple[str, ...], _Alike] = {}
    for place in placements.read_by_uuid(tx, uuids):
        row = rows[place.uuid]
        if not isinstance(place.where, ClaimedHost) or place.number != row.attempt:
            continue
        state = states[place.uuid].state if place.uuid in states else NEW
        booted = boots[row.caller_id, row.reservation_id].spec
        spec = replace(as_now(booted, state), image=images[place.uuid])
        key = (row.caller_id, row.reservation_id, spec.flavor.id, spec.image.id, spec.image_key)
        found.setdefault(key, _Alike(spec)).places.append((place, place.where.host_id))
    return list(found.values())


def _taking(schedulers: Schedulers, table: HostTable, alike: _Alike) -> frozenset[str]:
    """Return those of the hosts that every filter admits."""
    spec = alike.spec
    rows = table.rows_of(sorted({host_id for _, host_id in alike.places}))
    for host_filter in schedulers.default.plugins.filters.on_rebuild:
        rows = rows[_answers(host_filter, HostView(table, rows, spec), spec)]
    return frozenset(table.host_ids(rows))


def _answers(host_filter: BaseHostFilter, hosts: HostView, spec: RequestSpec) -> Bools:
    """Return one answer per host; no host passes a filter that fails or cannot read the image."""
    try:
        check_filter(host_filter, spec)
        answers = answers_of(host_filter, hosts, spec)
    except ZoneschedError as error:
        log.warning("no rebuild: %s: %s", host_filter.name, error.message)
        return np.zeros(len(hosts), dtype=np.bool_)
    for row in hosts.row_numbers[~answers].tolist():
        log.info("no rebuild on host %s: %s refuses the image", hosts.table.name(row), host_filter.name)
    return answers
