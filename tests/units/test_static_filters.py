"""Filters of static facts: a table of examples for each, which reads as its documentation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders.hosts import a_host, a_spec, a_table, schedulers
from zonesched import conf
from zonesched.errors import BadRequest
from zonesched.filters.registry import BUILT_IN
from zonesched.filters.requirement import OPERATORS, parse_requirement
from zonesched.model.aggregate import Aggregate
from zonesched.model.build_plan import FunnelStep
from zonesched.model.host_state import HostState
from zonesched.model.host_table import HostRow
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec
from zonesched.scheduler.base_scheduler import OfferRequest


def passes(name: str, host: HostRow, spec: RequestSpec, **options: Any) -> bool:
    """Verdict of a filter on one host, in both forms."""
    host_filter = BUILT_IN[name].from_conf(conf.load([], options))
    table = a_table([host])
    scalar = host_filter.host_passes(HostState(table, 0), spec)
    assert host_filter.passes(HostView.whole(table, spec), spec).tolist() == [scalar]
    return scalar


# -- operators ---------------------------------------------------------------------------------------------

MET = [
    ("= 5", 5, True),
    ("= 5", 7.5, True),
    ("= 5", "4.9", False),
    ("== 5", "5.0", True),
    ("== 5", 6, False),
    ("!= 5", 6, True),
    ("!= 5", 5, False),
    ("!= 5", "no number", False),
    (">= 5", 5, True),
    (">=5", "12", True),
    (">= 5", " 12 ", True),
    (">= 5", "1_2", False),
    ("<= 5", 5, True),
    ("<= 5", 6, False),
    ("<= 5", True, False),
    ("s== 2.1.0", "2.1.0", True),
    ("s== 2.1.0", "2.1", False),
    ("s!= kvm", "xen", True),
    ("s!= kvm", "kvm", False),
    ("s>= b", "b", True),
    ("s> b", "b", False),
    ("s> b", "c", True),
    ("s<= b", "a", True),
    ("s< b", "b", False),
    ("s< 5", "10", True),
    ("<in> gcc", "a gcc host", True),
    ("<in> gcc", "clang", False),
    ("<in> sse", ["ssse3", "aes"], True),
    ("<all-in> aes mmx", "fpu mmx aes", True),
    ("<all-in> aes mmx", ["aes", "mmx", "fpu"], True),
    ("<all-in> aes mm", ["aes", "mmx"], False),
    ("<or> fpu <or> gpu", "gpu", True),
    ("<or> fpu <or> gpu", "gpus", False),
    ("<or> fpu <or> gpu", ["mmx", "fpu"], True),
    ("<or> one word <or> two", "one word", True),
    ("<or> fpu <or> gpu <or>", "gpu", True),
    ("<or> fpu <or> gpu <or>", "mmx", False),
    ("<in> gcc <in>", "a gcc host", True),
    ("<in> gcc <in>", "clang", False),
    ("a100", "a100", True),
    ("a100", "A100", False),
    ("10", 10, True),
    ("True", True, True),
    ("true", "True", False),
    ("a b", "a b", True),
    (' {"vendor": "Intel"}', ' {"vendor": "Intel"}', True),
    ("a100", None, False),
    ("s!= a100", None, False),
    ("a100", ["a100"], False),
    ("a100", {"a100": 1}, False),
    ("<in> a100", {"a100": 1}, False),
]


@pytest.mark.parametrize(("text", "value", "met"), MET)
def test_an_operator_means_what_the_documents_say(text: str, value: object, met: bool) -> None:
    assert parse_requirement(text).met_by(value) is met


def test_every_operator_has_an_example() -> None:
    assert {parse_requirement(text).operator for text, _, _ in MET} == set(OPERATORS)


WRONG = [
    "> 5",
    "< 5",
    "!5",
    "<range-in> [ 1 2 ]",
    ">=",
    "= many",
    "== nan",
    "= 1_0",
    "= \u0663",
    ">= inf",
    "s==",
    "<or>",
    "<or> <or>",
    "<or> a <or> <or>",
    "<in> <in>",
]


@pytest.mark.parametrize(
    ("text", "value", "met"),
    [
        ("s== B-7 east", "B-7 east", True),
        ("s!= B-8", "B-7 east", True),
        ("s>= A", "B-7 east", False),
        ("s> A", "B-7 east", False),
        ("s<= C", "B-7 east", False),
        ("s< C", "B-7 east", False),
        ("<in> east", "B-7 east", True),
        ("<in> B-7", "B-7 east", True),
        ("<in> B-7 east", "B-7 east", True),
        ("<in> B", "B-7 east", False),
        ("<in> eas", "B-7 east", False),
        ("<in> avx", ["sse", "avx512"], False),
        ("<in> avx512", ["sse", "avx512"], True),
        ("<all-in> sse avx512", "sse,avx512", True),
        ("<all-in> sse avx", "sse,avx512", False),
        ("<all-in> sse", ["sse", "avx512"], True),
        ("<or> east <or> B-7 east", "B-7 east", True),
        (">= 2", "3", True),
        ("<in> true", True, True),
    ],
)
def test_a_requirement_of_a_parent_finds_whole_words_and_orders_no_texts(
    text: str, value: object, met: bool
) -> None:
    assert parse_requirement(text, of_parent=True).met_by(value) is met


@pytest.mark.parametrize("text", [*WRONG, "<in> ", "<all-in>", "<or>"])
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("ComputeCapabilitiesFilter", "capabilities:speed"),
        ("ComputeCapabilitiesFilter", "speed"),
        ("AggregateInstanceExtraSpecsFilter", "aggregate_instance_extra_specs:speed"),
    ],
)
def test_an_extra_spec_without_a_known_operator_is_refused_by_name(name: str, key: str, text: str) -> None:
    scheduler = schedulers(enabled_filters=[name]).default
    with pytest.raises(BadRequest) as refused:
        scheduler.check(a_spec(extra={key: text}))
    assert (refused.value.code, refused.value.field) == ("extra_spec_invalid", "flavor.extra_specs")
    assert refused.value.message.startswith(f"flavor.extra_specs: {key}: ")
    scheduler.check(a_spec(extra={f"hw:{key}": text}))


def test_an_extra_spec_with_an_empty_part_is_refused() -> None:
    scheduler = schedulers(enabled_filters=["ComputeCapabilitiesFilter"]).default
    with pytest.raises(BadRequest) as refused:
        scheduler.check(a_spec(extra={"capabilities:cpu_info:": "x"}))
    assert "'capabilities:cpu_info:'" in refused.value.message


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9)


@given(
    st.text(max_size=20) | st.tuples(st.sampled_from(OPERATORS), st.text(max_size=9)).map(" ".join),
    VALUES | st.lists(VALUES, max_size=3) | st.dictionaries(st.text(max_size=3), VALUES, max_size=2),
)
def test_any_text_is_a_requirement_or_refused_and_any_value_meets_it_or_not(text: str, value: object) -> None:
    try:
        requirement = parse_requirement(text)
    except ValueError:
        return
    assert requirement.met_by(value) in (True, False)


# -- capabilities ------------------------------------------------------------------------------------------

CAPABLE = a_host(
    ram_mb=4_096,
    capabilities={
        "gpu": "a100",
        "cores": 8,
        "fast": True,
        "hypervisor_type": "QEMU",
        "hypervisor_version": 2_012_000,
        "cpu_info": {"features": ["aes", "avx512f"], "topology": {"cores": 4}},
        "topology_text": '{"cores": 6}',
        "free_ram_mb": 9_999_999,
    },
)

CAPABILITIES: list[tuple[Mapping[str, str], bool]] = [
    ({}, True),
    ({"capabilities:gpu": "a100"}, True),
    ({"gpu": "a100"}, True),
    ({"gpu": "h100"}, False),
    ({"capabilities:gpu": "<or> h100 <or> a100", "capabilities:cores": ">= 9"}, False),
    ({"capabilities:cpu_info:features": "<in> avx512"}, True),
    ({"capabilities:cpu_info:features": "<all-in> aes sse9"}, False),
    ({"capabilities:cpu_info:topology:cores": "== 4"}, True),
    ({"capabilities:cpu_info:topology:cores:deeper": "== 4"}, False),
    ({"capabilities:topology_text:cores": "6"}, True),
    ({"capabilities:hypervisor_type": "s== QEMU"}, True),
    ({"capabilities:hypervisor_version": ">= 2012000"}, True),
    ({"capabilities:fast": "true"}, True),
    ({"capabilities:missing": "s!= anything"}, False),
    ({"missing": "anything"}, False),
    ({"capabilities:free_ram_mb": ">= 4096"}, True),
    ({"capabilities:free_ram_mb": ">= 4097"}, False),
    ({"capabilities:vcpus_total": "16"}, True),
    ({"num_instances": "<= 0"}, True),
    ({"capabilities:host": "host-1f"}, False),
    ({"capabilities:hypervisor_hostname": "host-1f"}, False),
    ({"capabilities:uuid": "1f"}, False),
    ({"resources:CUSTOM_GPU": "2", "trait:HW_X": "required", "traits:any_of": "A,B"}, True),
    ({"resources1:CUSTOM_GPU": "2", "trait1:HW_X": "required", "group_policy": "none"}, True),
    ({"zone:os": "linux", "quota:cpu_shares": "9", "hw:cpu_policy": "dedicated"}, True),
    ({"aggregate_instance_extra_specs:gpu": "h100"}, True),
]


@pytest.mark.parametrize(("extra", "passed"), CAPABILITIES)
def test_capabilities_meet_a_flavor(extra: Mapping[str, str], passed: bool) -> None:
    assert passes("ComputeCapabilitiesFilter", CAPABLE, a_spec(extra=extra)) is passed


@pytest.mark.parametrize("key", ["num_instances", "num_io_ops"])
def test_a_parent_reads_no_count_of_everybodys_instances(key: str) -> None:
    extra = {f"capabilities:{key}": "<= 100"}
    assert passes("ComputeCapabilitiesFilter", CAPABLE, a_spec(extra=extra))
    assert not passes("ComputeCapabilitiesFilter", CAPABLE, a_spec(extra=extra, path=("above",)))
    assert passes(
        "ComputeCapabilitiesFilter",
        CAPABLE,
        a_spec(extra={"capabilities:free_ram_mb": ">= 1"}, path=("above",)),
    )


def test_a_number_that_picks_change_is_asked_for_again() -> None:
    table = a_table([a_host("1f"), a_host("2f")])
    scheduler = schedulers(enabled_filters=["ComputeCapabilitiesFilter"]).default
    spec = a_spec(9, extra={"capabilities:num_instances": "<= 1"})
    offer = scheduler.offer(OfferRequest(table, spec))
    assert sorted(pick.host_id for pick in offer.picks) == ["1f", "1f", "2f", "2f"]


# -- images ------------------------------------------------------------------------------------------------

KVM = {
    "supported_instances": [["x86_64", "kvm", "hvm"], ["i686", "qemu", "hvm"]],
    "hypervisor_type": "QEMU",
    "hypervisor_version": 6_002_001,
}
XEN = {"supported_instances": [["amd64", "xen", "pv"]], "hypervisor_version": "4.11"}

IMAGES: list[tuple[Mapping[str, Any], Mapping[str, str], bool]] = [
    (KVM, {}, True),
    (KVM, {"os_distro": "debian"}, True),
    (KVM, {"hw_architecture": "x86_64"}, True),
    (KVM, {"hw_architecture": "AMD64"}, True),
    (KVM, {"hw_architecture": "aarch64"}, False),
    (KVM, {"architecture": "aarch64"}, False),
    (KVM, {"hw_architecture": "x86_64", "architecture": "aarch64"}, True),
    (KVM, {"img_hv_type": "kvm"}, True),
    (KVM, {"hypervisor_type": "xen"}, False),
    (KVM, {"hw_architecture": "i686", "img_hv_type": "kvm"}, False),
    (KVM, {"hw_architecture": "i386", "img_hv_type": "qemu", "vm_mode": "hv"}, True),
    (KVM, {"hw_architecture": "x86_32"}, True),
    (KVM, {"hw_architecture": "x86_32p", "img_hv_type": "qemu"}, True),
    ({"supported_instances": [["x86_32p", "xen", "pv"]]}, {"hw_architecture": "i386"}, True),
    (XEN, {"hw_vm_mode": "xen"}, True),
    (XEN, {"hw_vm_mode": "hvm"}, False),
    (KVM, {"img_hv_requested_version": ">=6.0,<7"}, True),
    (KVM, {"img_hv_requested_version": ">=6.2.2"}, False),
    (KVM, {"img_hv_requested_version": "==6.2.1.0"}, True),
    (KVM, {"hypervisor_version_requires": ">=6000"}, True),
    (KVM, {"img_hv_requested_version": "!=6002001"}, False),
    (XEN, {"img_hv_requested_version": ">4.9"}, True),
    ({}, {"img_hv_requested_version": ">4.9"}, True),
    ({"hypervisor_version": "unknown"}, {"img_hv_requested_version": ">4.9"}, True),
    ({}, {"img_hv_type": "qemu"}, False),
    ({"hypervisor_type": "QEMU"}, {"img_hv_type": "qemu"}, True),
    ({"hypervisor_type": "QEMU"}, {"img_hv_type": "qemu", "hw_architecture": "x86_64"}, False),
    ({"supported_instances": ["x86_64", ["x86_64"], 5]}, {"hw_architecture": "x86_64"}, False),
]


@pytest.mark.parametrize(("capabilities", "image", "passed"), IMAGES)
def test_a_host_supports_an_image(
    capabilities: Mapping[str, Any], image: Mapping[str, str], passed: bool
) -> None:
    assert passes("ImagePropertiesFilter", a_host(capabilities=capabilities), a_spec(image=image)) is passed


@pytest.mark.parametrize(
    ("image", "default", "passed"),
    [
        ({}, "", True),
        ({}, "x86_64", True),
        ({}, "amd64", True),
        ({}, "aarch64", False),
        ({"hw_architecture": "x86_64"}, "aarch64", True),
        ({"architecture": "x86_64"}, "aarch64", True),
        ({"hw_architecture": "aarch64"}, "x86_64", False),
    ],
)
def test_an_image_without_an_architecture_has_the_one_of_the_option(
    image: Mapping[str, str], default: str, passed: bool
) -> None:
    options = {"image_properties_default_architecture": default}
    host = a_host(capabilities=KVM)
    assert passes("ImagePropertiesFilter", host, a_spec(image=image), **options) is passed


@pytest.mark.parametrize("version", ["6.0", "~6", ">=six", ">=6,,<7", ">=" + "9" * 99, ">=6;<7"])
def test_a_version_that_is_no_bound_is_refused_by_name(version: str) -> None:
    scheduler = schedulers(enabled_filters=["ImagePropertiesFilter"]).default
    with pytest.raises(BadRequest) as refused:
        scheduler.check(a_spec(image={"img_hv_requested_version": version}))
    assert (refused.value.code, refused.value.field) == ("image_property_invalid", "image.properties")
    assert "img_hv_requested_version" in refused.value.message


def test_a_host_state_has_novas_names_of_a_hypervisors_facts() -> None:
    states = [HostState(a_table([host]), 0) for host in (a_host(capabilities=KVM), a_host())]
    assert [(s.hypervisor_type, s.hypervisor_version, len(s.supported_instances)) for s in states] == [
        ("QEMU", 6_002_001, 2),
        ("", 0, 0),
    ]
    assert HostState(a_table([CAPABLE]), 0).cpu_info["topology"] == {"cores": 4}


# -- aggregates --------------------------------------------------------------------------------------------


def in_aggregates(*metadata: Mapping[str, str]) -> HostRow:
    """A host that is in one aggregate with each of these."""
    return a_host(aggregates=[Aggregate(f"{n}f", f"a{n}", said) for n, said in enumerate(metadata)])


SCOPED = "aggregate_instance_extra_specs"
AGGREGATES: list[tuple[str, HostRow, RequestSpec, bool]] = [
    ("AggregateInstanceExtraSpecsFilter", in_aggregates(), a_spec(), True),
    ("AggregateInstanceExtraSpecsFilter", in_aggregates(), a_spec(extra={f"{SCOPED}:ssd": "true"}), False),
    (
        "AggregateInstanceExtraSpecsFilter",
        in_aggregates({"ssd": "true"}),
        a_spec(extra={"ssd": "true"}),
        True,
    ),
    (
        "AggregateInstanceExtraSpecsFilter",
        in_aggregates({"ssd": "true"}),
        a_spec(extra={f"{SCOPED}:ssd": "false"}),
        False,
    ),
    (
        "AggregateInstanceExtraSpecsFilter",
        in_aggregates({"rack": "a"}, {"rack": "b, c"}),
        a_spec(extra={f"{SCOPED}:rack": "<or> c <or> d"}),
        True,
    ),
    (
        "AggregateInstanceExtraSpecsFilter",
        in_aggregates({"rack": "a", "speed": "10"}),
        a_spec(extra={f"{SCOPED}:rack": "a", f"{SCOPED}:speed": ">= 11"}),
        False,
    ),
    (
        "AggregateInstanceExtraSpecsFilter",
        in_aggregates(),
        a_spec(extra={"capabilities:gpu": "a100", "hw:mem_page_size": "large", "resources:X": "1"}),
        True,
    ),
    (
        "AggregateInstanceExtraSpecsFilter",
        in_aggregates({"k": ""}),
        a_spec(extra={"k": ""}),
        True,
    ),
    (
        "AggregateInstanceExtraSpecsFilter",
        in_aggregates({"k": "a,"}),
        a_spec(extra={f"{SCOPED}:k": ""}),
        True,
    ),
    ("AggregateInstanceExtraSpecsFilter", in_aggregates({"k": "a"}), a_spec(extra={"k": ""}), False),
    ("AggregateInstanceExtraSpecsFilter", in_aggregates(), a_spec(extra={"k": ""}), False),
    ("AggregateMultiTenancyIsolation", in_aggregates({"filter_tenant_id": ""}), a_spec(), False),
    ("AggregateMultiTenancyIsolation", in_aggregates({"filter_tenant_id": " , "}), a_spec(), False),
    ("AggregateMultiTenancyIsolation", in_aggregates({"filter_tenant_id": "project-1,"}), a_spec(), True),
    ("AggregateTypeAffinityFilter", in_aggregates({"instance_type": ""}), a_spec(), False),
    ("AggregateTypeAffinityFilter", in_aggregates({"instance_type": ","}), a_spec(), False),
    (
        "AggregateImagePropertiesIsolation",
        in_aggregates({"os": ""}),
        a_spec(image={"os": "linux"}),
        False,
    ),
    ("AggregateMultiTenancyIsolation", in_aggregates(), a_spec(), True),
    ("AggregateMultiTenancyIsolation", in_aggregates({"ssd": "true"}), a_spec(), True),
    ("AggregateMultiTenancyIsolation", in_aggregates({"filter_tenant_id": "project-1"}), a_spec(), True),
    ("AggregateMultiTenancyIsolation", in_aggregates({"filter_tenant_id": "p9, project-1"}), a_spec(), True),
    ("AggregateMultiTenancyIsolation", in_aggregates({"filter_tenant_id": "project-12"}), a_spec(), False),
    ("AggregateMultiTenancyIsolation", in_aggregates({"filter_tenant_id_7": "p9"}), a_spec(), False),
    (
        "AggregateMultiTenancyIsolation",
        in_aggregates({"filter_tenant_id": "p9"}, {"filter_tenant_id2": "project-1"}),
        a_spec(),
        True,
    ),
    ("AggregateTypeAffinityFilter", in_aggregates(), a_spec(), True),
    ("AggregateTypeAffinityFilter", in_aggregates({"instance_type": "large, small"}), a_spec(), True),
    ("AggregateTypeAffinityFilter", in_aggregates({"instance_type": "large"}), a_spec(), False),
    (
        "AggregateTypeAffinityFilter",
        in_aggregates({"instance_type": "large"}, {"instance_type": "small"}),
        a_spec(),
        True,
    ),
    ("AggregateImagePropertiesIsolation", in_aggregates(), a_spec(image={"os": "windows"}), True),
    ("AggregateImagePropertiesIsolation", in_aggregates({"os": "windows"}), a_spec(), True),
    (
        "AggregateImagePropertiesIsolation",
        in_aggregates({"os": "windows,bsd"}),
        a_spec(image={"os": "bsd", "rest": "x"}),
        True,
    ),
    (
        "AggregateImagePropertiesIsolation",
        in_aggregates({"os": "windows"}),
        a_spec(image={"os": "linux"}),
        False,
    ),
    (
        "AggregateImagePropertiesIsolation",
        in_aggregates({"os": "windows"}, {"os": "linux"}),
        a_spec(image={"os": "linux"}),
        True,
    ),
]


@pytest.mark.parametrize(("name", "host", "spec", "passed"), AGGREGATES)
def test_aggregates_take_what_their_metadata_says(
    name: str, host: HostRow, spec: RequestSpec, passed: bool
) -> None:
    assert passes(name, host, spec) is passed


@pytest.mark.parametrize(
    ("separator", "key", "passed"), [(".", "image.os", False), (".", "os", True), ("_", "image.os", True)]
)
def test_a_namespace_limits_which_metadata_is_about_images(separator: str, key: str, passed: bool) -> None:
    options = {
        "aggregate_image_properties_isolation_namespace": "image",
        "aggregate_image_properties_isolation_separator": separator,
    }
    spec = a_spec(image={key: "linux"})
    host = in_aggregates({key: "windows"})
    assert passes("AggregateImagePropertiesIsolation", host, spec, **options) is passed


# -- names and addresses -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "image_id", "restrict", "passed"),
    [
        ("1f", "kept", True, True),
        ("1f", "other", True, False),
        ("1f", "", True, False),
        ("2f", "kept", True, False),
        ("2f", "other", True, True),
        ("1f", "kept", False, True),
        ("1f", "other", False, True),
        ("2f", "kept", False, False),
        ("2f", "", False, True),
    ],
)
def test_isolated_hosts_are_for_isolated_images(
    host: str, image_id: str, restrict: bool, passed: bool
) -> None:
    options = {
        "isolated_images": ["kept", "also"],
        "isolated_hosts": ["host-1f"],
        "restrict_isolated_hosts_to_isolated_images": restrict,
    }
    assert passes("IsolatedHostsFilter", a_host(host), a_spec(image_id=image_id), **options) is passed


def test_nothing_is_isolated_unless_an_option_says_so() -> None:
    assert passes("IsolatedHostsFilter", a_host(), a_spec())


def test_a_name_is_found_after_hosts_have_changed_theirs() -> None:
    def named(host_id: str, name: str) -> HostRow:
        row = a_host(host_id)
        return HostRow(replace(row.facts, name=name), row.inventories)

    table = a_table([named("1f", "a"), named("2f", "b"), named("3f", "c")])
    table.apply([named("1f", "b"), named("2f", "a")], removed=["3f"])
    table.apply([named("4f", "c")])
    view = HostView.whole(table, a_spec())
    found = {name: view.named([name]).nonzero()[0].tolist() for name in "abcd"}
    assert found == {
        "a": [table.row_of("2f")],
        "b": [table.row_of("1f")],
        "c": [table.row_of("4f")],
        "d": [],
    }


NEAR: list[tuple[str, Mapping[str, Any], bool]] = [
    ("10.0.0.9", {}, True),
    ("10.0.0.9", {"build_near_host_ip": "10.0.0.200"}, True),
    ("10.0.1.9", {"build_near_host_ip": "10.0.0.200"}, False),
    ("10.0.1.9", {"build_near_host_ip": "10.0.0.200", "cidr": "/23"}, True),
    ("10.0.1.9", {"build_near_host_ip": "10.0.0.200", "cidr": "16"}, True),
    ("10.0.1.9", {"build_near_host_ip": "10.0.0.200", "cidr": 32}, False),
    ("10.0.1.9", {"build_near_host_ip": "9.9.9.9", "cidr": "/0"}, True),
    ("fd00::1:9", {"build_near_host_ip": "9.9.9.9", "cidr": "/0"}, False),
    ("fd00::1:9", {"build_near_host_ip": "fd00::ffff:1"}, True),
    ("fd00:ff::9", {"build_near_host_ip": "fd00::1"}, True),
    ("fd00:1ff::9", {"build_near_host_ip": "fd00::1"}, False),
    ("fd00:0:0:1::9", {"build_near_host_ip": "fd00::1", "cidr": "/64"}, False),
    ("fd00:0:0:1::9", {"build_near_host_ip": "fd00::1", "cidr": "/60"}, True),
    ("fd00::1:9", {"build_near_host_ip": "fd00::1:8", "cidr": "/127"}, True),
    ("fd00::1:9", {"build_near_host_ip": "fd00::1:8", "cidr": "/128"}, False),
    ("", {"build_near_host_ip": "10.0.0.200", "cidr": "/0"}, False),
    ("rack 7", {"build_near_host_ip": "10.0.0.200", "cidr": "/0"}, False),
]


@pytest.mark.parametrize(("address", "hints", "passed"), NEAR)
def test_a_host_is_near_an_address(address: str, hints: Mapping[str, Any], passed: bool) -> None:
    host = a_host()
    host = HostRow(replace(host.facts, address=address), host.inventories)
    assert passes("SimpleCIDRAffinityFilter", host, a_spec(hints=hints)) is passed


@pytest.mark.parametrize(
    ("hint", "hints"),
    [
        ("build_near_host_ip", {"build_near_host_ip": "10.0.0"}),
        ("build_near_host_ip", {"build_near_host_ip": 7}),
        ("build_near_host_ip", {"build_near_host_ip": ["10.0.0.1"]}),
        ("cidr", {"cidr": "/24"}),
        ("cidr", {"build_near_host_ip": "10.0.0.1", "cidr": "/33"}),
        ("cidr", {"build_near_host_ip": "10.0.0.1", "cidr": "/-1"}),
        ("cidr", {"build_near_host_ip": "10.0.0.1", "cidr": "10.0.0.0/8"}),
        ("cidr", {"build_near_host_ip": "fd00::1", "cidr": "129"}),
        ("cidr", {"build_near_host_ip": "fd00::1", "cidr": {}}),
        ("cidr", {"build_near_host_ip": "fd00::1", "cidr": "/" + 5000 * "1"}),
        ("cidr", {"build_near_host_ip": "fd00::1", "cidr": 10**18}),
    ],
)
def test_a_network_that_is_none_is_refused_by_name(hint: str, hints: Mapping[str, Any]) -> None:
    scheduler = schedulers(enabled_filters=["SimpleCIDRAffinityFilter"]).default
    with pytest.raises(BadRequest) as refused:
        scheduler.check(a_spec(hints=hints))
    assert (refused.value.code, refused.value.field) == ("hint_invalid", f"hints.{hint}")


@given(st.ip_addresses(), st.ip_addresses(), st.integers(0, 128))
def test_addresses_are_inside_a_network_as_one_by_one(address: Any, other: Any, bits: int) -> None:
    host_filter = BUILT_IN["SimpleCIDRAffinityFilter"]()
    spec = a_spec(hints={"build_near_host_ip": str(other), "cidr": bits % (other.max_prefixlen + 1)})
    rows = []
    for number, text in enumerate((str(address), str(other), "")):
        row = a_host(f"{number}f")
        rows.append(HostRow(replace(row.facts, address=text), row.inventories))
    view = HostView.whole(a_table(rows), spec)
    scalar = [host_filter.host_passes(state, spec) for state in view.states()]
    assert host_filter.passes(view, spec).tolist() == scalar
    assert scalar[1] and not scalar[2]


# -- the funnel --------------------------------------------------------------------------------------------


def test_the_older_name_of_the_json_filter_is_the_same_filter() -> None:
    scheduler = schedulers(enabled_filters=["JsonFilter"]).default
    spec = a_spec(filters=("JSONFilter", "JsonFilter"), filter_query='[">", "$free_ram_mb", 1]')
    steps = scheduler.offer(OfferRequest(a_table([a_host()]), spec)).why
    assert steps[0] == FunnelStep("JSONFilter", "query_not_met", 1, 1)
    assert [step.filter for step in steps] == ["JSONFilter", "free_slots"]
