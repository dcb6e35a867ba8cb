"""Built-in filters and weighers that differ from OpenStack Nova's, as docs/plugins.md lists them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.builders.hosts import a_context, a_host, a_spec, a_table, schedulers
from zonesched.errors import BadRequest
from zonesched.model.host_row import HostRow
from zonesched.model.request_spec import GroupPolicy, RequestSpec, ServerGroup
from zonesched.scheduler.offer import Offer, OfferRequest


def offer(spec: RequestSpec, *hosts: HostRow, group: str = "", **options: Any) -> Offer:
    context = replace(a_context("request-1"), group=group)
    request = OfferRequest(a_table(hosts), spec, context, scored=len(hosts))
    return schedulers(**options).default.offer(request)


def passes(name: str, spec: RequestSpec, **capabilities: Any) -> bool:
    return bool(offer(spec, a_host(capabilities=capabilities), enabled_filters=[name]).picks)


def scores(weigher: str, spec: RequestSpec, *hosts: HostRow, **options: Any) -> dict[str, float]:
    """Score of each host by one weigher alone."""
    best = offer(spec, *hosts, weight_classes=[weigher], enabled_filters=["AllHostsFilter"], **options).best
    return {host.host_id: sum(part.amount for part in host.parts) for host in best}


@pytest.mark.parametrize(
    ("extra", "is_passed"),
    [
        ({"ssd": "true"}, False),
        ({"aggregate_instance_extra_specs:ssd": "true"}, True),
        ({"hw:maxphysaddr_bits": "42"}, True),
        ({"capabilities:cpu_info:maxphysaddr:bits": ">= 42"}, False),
    ],
)
def test_extra_specs(extra: dict[str, str], is_passed: bool) -> None:
    cpu_info = {"maxphysaddr": {"bits": 20}}

    assert passes("ComputeCapabilitiesFilter", a_spec(extra=extra), cpu_info=cpu_info) == is_passed


@pytest.mark.parametrize(
    ("name", "key"),
    [("ComputeCapabilitiesFilter", "cores"), ("AggregateInstanceExtraSpecsFilter", "cores")],
)
@pytest.mark.parametrize("text", ["> 5", "=", "!5"])
def test_a_requirement_of_no_known_form_is_refused(name: str, key: str, text: str) -> None:
    with pytest.raises(BadRequest) as refused:
        passes(name, a_spec(extra={key: text}), cores="4")
    assert refused.value.code == "extra_spec_invalid"


@pytest.mark.parametrize(
    "image", [{"img_hv_requested_version": ">=6.2"}, {"hw_vm_mode": "xen"}, {"img_hv_type": "hvm"}]
)
def test_images(image: dict[str, str]) -> None:
    supported = [["x86_64", "xen", "hvm"]]

    assert not passes(
        "ImagePropertiesFilter",
        a_spec(image=image),
        supported_instances=supported,
        hypervisor_version=6_000_000,
    )


def test_a_bound_on_physical_addresses_of_an_image_is_not_read() -> None:
    spec = a_spec(image={"hw_maxphysaddr_bits": "42"})

    assert passes("ImagePropertiesFilter", spec, cpu_info={"maxphysaddr": {"bits": 20}})


@pytest.mark.parametrize(
    "query",
    [
        {},
        ["!=", 1, 2],
        [">", 1],
        ["=", "$foo", 2, 2],
        ["and", "$capabilities.gpu"],
        ["not", "$service.disabled"],
    ],
)
def test_queries_that_are_refused(query: Any) -> None:
    with pytest.raises(BadRequest) as refused:
        passes("JSONFilter", a_spec(filter_query=json.dumps(query)), gpu=True)
    assert refused.value.code == "filter_query_invalid"


def test_a_host_with_less_than_nothing_free_scores_below_0() -> None:
    spec = a_spec(ram_mb=0, vcpus=1, disk_gb=0)
    hosts = [a_host("1a", ram_mb=1_000), a_host("2b", ram_mb=1_000, used={"MEMORY_MB": 1_500})]

    assert scores("RAMWeigher", spec, *hosts) == {"1a": 1.0, "2b": -0.5}


def test_a_host_without_failed_builds_scores_0() -> None:
    hosts = [a_host("1a", failed_builds=1), a_host("2b", failed_builds=4)]

    found = scores("BuildFailureWeigher", a_spec(), *hosts, build_failure_weight_multiplier=1.0)

    assert found == {"1a": -0.25, "2b": -1.0}


def test_each_member_of_a_soft_group_is_worth_one_multiplier() -> None:
    spec = a_spec(group=ServerGroup("g", GroupPolicy.SOFT_AFFINITY))
    hosts = [a_host("1a", groups={"g": 2}, owners={"o": 2}), a_host("2b", groups={"g": 4}, owners={"o": 4})]

    assert scores("ServerGroupSoftAffinityWeigher", spec, *hosts, group="g") == {"2b": 4.0, "1a": 2.0}
