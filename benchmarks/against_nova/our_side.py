"""Our side: the same hosts in a table, and the scheduler that a zone would ask."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from benchmarks.against_nova.hosts import (
    AGGREGATES,
    DISK_GB,
    EXTRA_SPECS,
    FILTERS,
    IMAGE_PROPERTIES,
    LIMITS,
    METRIC,
    METRICS_WEIGHT_SETTING,
    MULTIPLIERS,
    RAM_MB,
    VCPUS,
    WEIGHERS,
    PlainHost,
)
from benchmarks.many_hosts.hosts import host_id
from zonesched import conf
from zonesched.model import request_spec
from zonesched.model.aggregate import Aggregate
from zonesched.model.capacity import Inventory
from zonesched.model.host_row import HostFacts, HostRow, HostUse
from zonesched.model.host_table import HostTable
from zonesched.model.request_spec import Flavor, Image, RequestSpec
from zonesched.scheduler.offer import Offer, OfferRequest
from zonesched.scheduler.schedulers import Schedulers

LIVES, IS_DEAD = "agent-1", "agent-2"


def a_row(number: int, host: PlainHost) -> HostRow:
    return HostRow(
        HostFacts(
            id=host_id(number),
            name=host.name,
            service_id=LIVES if host.up else IS_DEAD,
            capabilities={
                "hypervisor_type": host.hypervisor_type,
                "hypervisor_version": host.hypervisor_version,
                "supported_instances": [list(combination) for combination in host.supported_instances],
            },
            enabled=host.enabled,
            aggregates=tuple(Aggregate(key, f"aggregate-{key}", AGGREGATES[key]) for key in host.aggregates),
        ),
        {
            request_spec.VCPU: Inventory(host.vcpus, allocation_ratio=host.vcpu_ratio),
            request_spec.MEMORY_MB: Inventory(host.ram_mb, reserved=host.ram_reserved_mb),
            request_spec.DISK_GB: Inventory(host.disk_gb),
        },
        HostUse(
            {
                request_spec.VCPU: host.vcpus_used,
                request_spec.MEMORY_MB: host.ram_used_mb,
                request_spec.DISK_GB: host.disk_used_gb,
            },
            owners={"zone:project-1": host.num_instances},
            num_building=host.num_io_ops,
            failed_builds=host.failed_builds,
        ),
        {METRIC: float(host.metric)},
    )


class OurSide:
    """One table and one scheduler, asked again and again."""

    def __init__(self, hosts: Sequence[PlainHost]) -> None:
        self._table = HostTable()
        self._table.apply(a_row(number, host) for number, host in enumerate(hosts))
        self._table.set_services_up({LIVES: True, IS_DEAD: False})
        overrides: dict[str, Any] = {
            "enabled_filters": list(FILTERS),
            "weight_classes": list(WEIGHERS),
            "metrics_weight_setting": [METRICS_WEIGHT_SETTING],
            **MULTIPLIERS,
            **LIMITS,
        }
        self._scheduler = Schedulers.from_conf(conf.load([], overrides)).default
        self._asked = 0

    def select(self) -> float:
        """Milliseconds of one select of one instance."""
        return self._timed(alternates=0)[0]

    def rank(self) -> tuple[float, list[str]]:
        """Milliseconds of putting all hosts in order, and the order by name, the best first."""
        taken_ms, offer = self._timed(alternates=self._table.size)
        ids = [pick.host_id for pick in (*offer.picks, *offer.alternates)]
        return taken_ms, [self._table.name(self._table.row_of(found)) for found in ids]

    def _timed(self, alternates: int) -> tuple[float, Offer]:
        self._asked += 1
        spec = RequestSpec(
            request_id=f"request-{self._asked}",
            project_id="project-1",
            num_instances=1,
            flavor=Flavor("flavor-1", "m1.small", VCPUS, RAM_MB, DISK_GB, EXTRA_SPECS),
            image=Image("image-1", "linux", IMAGE_PROPERTIES),
            alternates=alternates,
        )
        started = time.perf_counter()
        offer = self._scheduler.offer(OfferRequest(self._table, spec))
        return (time.perf_counter() - started) * 1e3, offer
