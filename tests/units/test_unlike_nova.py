"""Built-in filters and weighers that differ from OpenStack Nova's, as docs/plugins.md lists them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.builders.hosts import a_context, a_host, a_spec, a_table, schedulers
from zonesched.errors import BadRequest, ConfigError
from zonesched.model.aggregate import Aggregate
from zonesched.model.capacity import Inventory
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
    ("extra", "is_passed"),
    [
        ({"capabilities:cores": ">=3"}, True),
        ({"capabilities:cores": ">=5"}, False),
        ({"capabilities:model": "s== node one"}, True),
        ({"capabilities:model": "<in> node two"}, False),
        ({"capabilities:model": "!= 4"}, False),
        ({"capabilities:features": "<or> aes <or> mmx"}, True),
        ({"capabilities:features": "<all-in> ae"}, False),
        ({"capabilities:is_fast": "TRUE"}, True),
        ({"hw:cpu_policy": "dedicated", "hw:tpm_version": "2.0", "os:secure_boot": "required"}, True),
    ],
)
def test_requirements(extra: dict[str, str], is_passed: bool) -> None:
    reported = {"cores": 4, "model": "node one", "features": ["aes", "sse"], "is_fast": True}

    assert passes("ComputeCapabilitiesFilter", a_spec(extra=extra), **reported) == is_passed


def test_the_policy_of_groups_is_no_demand_on_metadata() -> None:
    assert passes("AggregateInstanceExtraSpecsFilter", a_spec(extra={"group_policy": "none"}))


def test_a_number_of_several_words_is_refused() -> None:
    with pytest.raises(BadRequest) as refused:
        passes("ComputeCapabilitiesFilter", a_spec(extra={"cores": "== 4 5"}), cores=4)
    assert refused.value.code == "extra_spec_invalid"


@pytest.mark.parametrize("name", ["hw_cpu_policy", "hw_tpm_version"])
def test_properties_of_an_image_ask_for_no_resources_and_traits(name: str) -> None:
    spec = a_spec(image={name: "dedicated"}, extra={name.replace("_", ":", 1): "dedicated"})

    assert set(spec.resources) == {"VCPU", "MEMORY_MB", "DISK_GB"}
    assert not spec.traits.required


def test_a_host_without_supported_instances_has_its_hypervisor_type() -> None:
    assert passes("ImagePropertiesFilter", a_spec(image={"img_hv_type": "qemu"}), hypervisor_type="QEMU")


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
        ["<", "a", "b"],
    ],
)
def test_queries_that_are_refused(query: Any) -> None:
    with pytest.raises(BadRequest) as refused:
        passes("JSONFilter", a_spec(filter_query=json.dumps(query)), gpu=True)
    assert refused.value.code == "filter_query_invalid"


@pytest.mark.parametrize(
    ("query", "holds"),
    [
        (["in", "$capabilities.missing", 1, 1], False),
        (["=", 1, True], False),
        (["<", False, 1], False),
        (["and", ["not", True]], False),
        (["not", ["not", True]], True),
    ],
)
def test_queries_that_are_read_otherwise(query: Any, holds: bool) -> None:
    assert passes("JSONFilter", a_spec(filter_query=json.dumps(query))) == holds


def test_the_length_of_a_network_without_an_address_is_refused() -> None:
    with pytest.raises(BadRequest) as refused:
        passes("SimpleCIDRAffinityFilter", a_spec(hints={"cidr": "/24"}))
    assert refused.value.code == "hint_invalid"


def test_a_limit_of_an_aggregate_need_not_be_whole() -> None:
    limited = Aggregate("1", "a", {"max_instances_per_host": "2.5"})
    hosts = [a_host(str(n), owners={"o": n}, aggregates=[limited]) for n in (2, 3)]

    found = offer(a_spec(), *hosts, enabled_filters=["AggregateNumInstancesFilter"])

    assert [pick.host_id for pick in found.picks] == ["2"]


def test_free_vcpus_are_those_that_a_claim_may_take() -> None:
    cores = Inventory(3, reserved=1, allocation_ratio=1.3)
    hosts = [a_host("1a", vcpus=cores), a_host("2b", vcpus=4)]

    assert scores("CPUWeigher", a_spec(), *hosts) == {"2b": 1.0, "1a": 0.5}


def test_an_aggregate_has_images_weighed_that_the_option_does_not() -> None:
    weighing = Aggregate("1", "a", {"image_props_weight_multiplier": "2"})
    debian = a_spec(image={"os_distro": "debian"})
    hosts = [
        a_host("1a", images={debian.image_key: 1}, owners={"o": 1}, aggregates=[weighing]),
        a_host("2b", images={debian.image_key: 1}, owners={"o": 1}),
    ]

    assert scores("ImagePropertiesWeigher", debian, *hosts) == {"1a": 2.0, "2b": 0.0}


@pytest.mark.parametrize("setting", [["load"], ["load=x"], ["load=1", "load=2"]])
@pytest.mark.parametrize("option", ["metrics_weight_setting", "image_props_weight_setting"])
def test_a_setting_that_cannot_be_read_stops_the_start(option: str, setting: list[str]) -> None:
    with pytest.raises(ConfigError):
        schedulers(**{option: setting})


def test_a_metric_with_the_ratio_0_is_not_required() -> None:
    hosts = [a_host("1a", metrics={"load": 1.0}), a_host("2b", metrics={"load": 3.0})]

    found = scores("MetricsWeigher", a_spec(), *hosts, metrics_weight_setting=["load=1", "heat=0"])

    assert found == {"1a": 0.0, "2b": 1.0}


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
