"""Targets of what filters and weighers read: queries, extra specs, properties, metadata of aggregates."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from benchmarks.fuzzing import hostile
from benchmarks.fuzzing.target import Target, Work, stateless
from tests.builders.hosts import a_host, a_spec, a_table, schedulers
from zonesched.errors import BadRequest
from zonesched.filters.json_operand import RESOURCE_COLUMNS
from zonesched.filters.json_query import parse_query
from zonesched.filters.registry import BUILT_IN
from zonesched.filters.requirement import OPERATORS
from zonesched.model.aggregate import Aggregate
from zonesched.model.host_state import HostState
from zonesched.model.host_table import HostTable
from zonesched.model.host_view import HostView
from zonesched.model.request_spec import RequestSpec
from zonesched.model.request_wire import (
    content_digest,
    spec_from_row,
    spec_from_wire,
    spec_to_row,
    spec_to_wire,
)
from zonesched.scheduler.base_scheduler import OfferRequest
from zonesched.weights.registry import BUILT_IN as WEIGHERS

HOSTS = 1500
"""Hosts that each query is asked about: as many as a query of 16 kB once took 24 seconds for."""

COMPARED = 20
"""Hosts for which the vectorised answer is compared with the scalar one."""

_CAPABILITIES: Sequence[Any] = (
    {"gpu": "a100", "cores": 4, "cpu_info": {"vendor": "Intel", "features": ["aes", "mmx"]}},
    {
        "gpu": True,
        "cores": 2**63,
        "cpu_info": '{"vendor": 5, "features": "aes"}',
        "hypervisor_version": "6.2.9200",
    },
    {
        "cpu_info": "[" * 900,
        "hypervisor_version": 2012000,
        "supported_instances": [["x86_64", "kvm", "hvm"], "x"],
    },
    {"gpu": None, "cores": "٣", "cpu_info": 5, "hypervisor_type": ["QEMU"], "supported_instances": {"a": 1}},
)


@cache
def _table() -> HostTable:
    return a_table(
        a_host(f"{number:x}f", capabilities=_CAPABILITIES[number % 4], ram_mb=number)
        for number in range(HOSTS)
    )


# -- queries -----------------------------------------------------------------------------------------------

_variables = st.sampled_from(
    (
        *(f"${name}" for name in RESOURCE_COLUMNS),
        "$capabilities.gpu",
        "$capabilities.cores",
        "$cpu_info.vendor",
    )
)
_operands = _variables | st.sampled_from((0, 1, 4.5, "a100", True, 2**53)) | hostile.scalars
_comparisons = st.tuples(
    st.sampled_from(("=", "<", ">", "<=", ">=", "in")), st.lists(_operands, min_size=1, max_size=5)
).map(lambda pair: [pair[0], *pair[1]])
_queries = st.recursive(
    _comparisons,
    lambda inner: st.tuples(st.sampled_from(("and", "or", "not")), st.lists(inner, max_size=4)).map(
        lambda pair: [pair[0], *pair[1]]
    ),
    max_leaves=12,
)
_wide = st.builds(
    lambda word, operand, count: [word, operand, *[operand] * count],
    st.sampled_from(("and", "or", "in", "=")),
    _variables | _comparisons,
    st.sampled_from((127, 255, 256, 900)),
)


@st.composite
def query_texts(draw: DrawFn) -> str:
    document = draw(hostile.mutated(_queries | _wide))
    text = hostile.as_bytes(document, ascii_only=draw(st.booleans()))
    return draw(hostile.changed_bytes(text)).decode("utf-8", "surrogateescape")


def check_query(text: str) -> Work:
    """A query is refused as such, or holds for the same hosts in both forms."""
    try:
        query = parse_query(text)
    except BadRequest as fault:
        assert fault.code == "filter_query_invalid" and fault.field == "filter_query"
        return Work(len(text))
    table, spec = _table(), a_spec()
    held = query.hold(HostView.whole(table, spec))
    rows = range(0, HOSTS, HOSTS // COMPARED)
    assert held[list(rows)].tolist() == [query.holds(HostState(table, row)) for row in rows]
    return Work(len(text))


# -- extra specs, properties, metadata ---------------------------------------------------------------------

_demands = st.builds(
    "{}{}{}".format,
    st.sampled_from((*OPERATORS, "", "<or> x <or>", "> ")),
    st.sampled_from(("", " ", "  ")),
    st.sampled_from(("5", "aes", "a100 b", "2.1.0", "٣", "1e400", "x,y")) | hostile.words,
).filter(lambda text: len(text) <= 255)
_texts = hostile.words.filter(lambda text: len(text) <= 255)
_extra_specs = st.dictionaries(
    st.sampled_from(
        (
            "gpu",
            "cores",
            "capabilities:cpu_info:features",
            "capabilities:cpu_info:vendor",
            "capabilities:free_ram_mb",
            "aggregate_instance_extra_specs:kind",
            "trait:SSD",
            "traits:any_of",
            "zone:tier",
            "hw:cpu_policy",
            "a:b:c:d",
        )
    )
    | _texts,
    _demands | _texts,
    max_size=5,
)
_properties = st.dictionaries(
    st.sampled_from(
        ("hw_architecture", "hypervisor_type", "hw_vm_mode", "img_hv_requested_version", "os_distro")
    ),
    st.sampled_from(("x86_64", ">=6.0,<7", "<" + "9" * 60, ">=1." + "0." * 25 + "0", "==2012000")) | _texts,
    max_size=4,
)
_metadata = st.dictionaries(
    st.sampled_from(
        (
            "kind",
            "gpu",
            "instance_type",
            "filter_tenant_id",
            "filter_tenant_id_x",
            "os_distro",
            "max_io_ops_per_host",
            "max_instances_per_host",
            "cpu_allocation_ratio",
            "allocation_ratio:CUSTOM_X",
            *sorted(weigher.multiplier_key for weigher in WEIGHERS.values() if weigher.multiplier_key),
        )
    ),
    st.sampled_from(("1", "-1e308", "1e308", "nan", "1_0", "٣", "a,b", " 5 ")) | _demands | _texts,
    max_size=5,
)


def _is_json(value: Any) -> bool:
    """Tell whether a body can have this value."""
    try:
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    except ValueError:
        return False
    return True


_names = st.sampled_from(("host-0f", "host-1f", "")) | _texts
_hints = st.fixed_dictionaries(
    {},
    optional={
        "build_near_host_ip": st.sampled_from(("10.0.0.1", "fd00::9:1", "fe80::1%lo", 7)) | hostile.values,
        "cidr": st.sampled_from(("/24", 24, "/-1", "/٣", "/" + "1" * 5000)) | hostile.values,
        "force_hosts": _names | st.lists(_names, min_size=1, max_size=3),
        "ignore_hosts": _names | st.lists(_names, min_size=1, max_size=3),
        "other": hostile.values,
    },
).filter(_is_json)


@st.composite
def demands(draw: DrawFn) -> tuple[RequestSpec, dict[str, str]]:
    spec = a_spec(
        draw(st.integers(1, 4)),
        extra=draw(_extra_specs),
        image=draw(_properties),
        hints=draw(_hints),
        filters=tuple(draw(st.lists(st.sampled_from(sorted(BUILT_IN)), max_size=4))),
        filter_query="" if draw(st.booleans()) else draw(query_texts()),
        alternates=draw(st.integers(0, 2)),
    )
    return spec, draw(_metadata)


_OPTIONS: dict[str, Any] = {
    "enabled_filters": sorted(set(BUILT_IN) - {"MetricsFilter"}),
    "weight_classes": ["all_weighers"],
    "metrics_required": False,
}


def check_demands(given: tuple[RequestSpec, dict[str, str]]) -> Work:
    """Every filter and weigher answers for any demand, or refuses it as a bad request."""
    spec, metadata = given
    aggregates = [Aggregate("1", "fast", metadata)]
    hosts = [
        a_host(f"{n}f", capabilities=_CAPABILITIES[n], aggregates=aggregates, traits=["SSD"])
        for n in range(4)
    ]
    try:
        scheduler = schedulers(**_OPTIONS).default
        scheduler.offer(OfferRequest(a_table(hosts), spec))
    except BadRequest as fault:
        assert fault.field and fault.code
    return Work(len(repr(given)))


def check_wire(given: tuple[RequestSpec, dict[str, str]]) -> Work:
    """A spec is the same after the wire and after the store, and so is its digest."""
    spec, _ = given
    assert spec_from_row(json.loads(json.dumps(spec_to_row(spec)))) == spec
    wire = json.loads(json.dumps(spec_to_wire(spec)))
    assert content_digest(spec_from_wire(wire)) == content_digest(spec)
    return Work(len(repr(given)))


TARGETS = (
    Target("queries", f"queries of JSONFilter, over {HOSTS} hosts", query_texts, stateless(check_query)),
    Target(
        "demands",
        "extra specs, properties, hints and metadata before all filters and weighers",
        demands,
        stateless(check_demands),
    ),
    Target("specs", "request specs through the wire and the store", demands, stateless(check_wire)),
)
