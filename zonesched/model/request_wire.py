"""Conversion of request specs to and from JSON, for the wire and the store, and the digest for sealing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from zonesched.model.own_zone import AsConfigured, ChosenFilters, for_others
from zonesched.model.request_spec import (
    CostFunction,
    CostWeighing,
    Flavor,
    Group,
    GroupPolicy,
    Image,
    NoGroup,
    Policy,
    RequestSpec,
    ScoreWeighing,
    ServerGroup,
    Unweighed,
    WeigherScale,
    Weighing,
)

_CONTENT = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def content_digest(spec: RequestSpec) -> bytes:
    """Return SHA-256 of the request's members that choose hosts (flavor, image, hints and so on), 32 bytes.

    A sealed entry is bound to the digest. It excludes members that differ between hops or between select and
    boot (request id, path, time budget, number of instances, weighing).
    """
    content = {
        "flavor": flavor_to_wire(spec.flavor),
        "image": image_to_wire(spec.image),
        "policy": spec.policy.value,
        "group": _group_to_wire(spec.group),
        "availability_zone": spec.availability_zone,
        "hints": for_others(spec.hints),
        "filters": list(spec.filters),
        "filter_query": spec.filter_query,
    }
    return hashlib.sha256(_CONTENT.encode(content).encode()).digest()


def spec_to_wire(spec: RequestSpec) -> dict[str, Any]:
    """Return the spec as the JSON object `request_spec` of docs/wire.md."""
    return {
        "request_id": spec.request_id,
        "project_id": spec.project_id,
        "num_instances": spec.num_instances,
        "alternates": spec.alternates,
        "policy": spec.policy.value,
        "group": _group_to_wire(spec.group),
        "flavor": flavor_to_wire(spec.flavor),
        "image": image_to_wire(spec.image),
        "availability_zone": spec.availability_zone,
        "hints": for_others(spec.hints),
        "filters": list(spec.filters),
        "filter_query": spec.filter_query,
        "weighing": _weighing_to_wire(spec.weighing),
        "path": list(spec.path),
        "time_budget_s": spec.time_budget_s,
    }


def spec_from_wire(wire: Mapping[str, Any]) -> RequestSpec:
    """Return the spec of a validated `request_spec` object; the API's schema checks types and limits."""
    return RequestSpec(
        request_id=wire["request_id"],
        project_id=wire["project_id"],
        num_instances=wire["num_instances"],
        alternates=wire["alternates"],
        policy=Policy(wire["policy"]),
        group=_group_from_wire(wire["group"]),
        flavor=flavor_from_wire(wire["flavor"]),
        image=image_from_wire(wire["image"]),
        availability_zone=wire["availability_zone"],
        hints=dict(wire["hints"]),
        filters=tuple(wire["filters"]),
        filter_query=wire["filter_query"],
        weighing=_weighing_from_wire(wire["weighing"]),
        path=tuple(wire["path"]),
        time_budget_s=wire["time_budget_s"],
    )


def flavor_to_wire(flavor: Flavor) -> dict[str, Any]:
    """Return a flavor as an object that is encoded as JSON."""
    return {
        "id": flavor.id,
        "name": flavor.name,
        "vcpus": flavor.vcpus,
        "ram": flavor.ram_mb,
        "disk": flavor.disk_gb,
        "ephemeral": flavor.ephemeral_gb,
        "swap": flavor.swap_mb,
        "extra_specs": dict(flavor.extra_specs),
    }


def flavor_from_wire(wire: Mapping[str, Any]) -> Flavor:
    """Return the flavor of a validated object."""
    return Flavor(
        id=wire["id"],
        name=wire["name"],
        vcpus=wire["vcpus"],
        ram_mb=wire["ram"],
        disk_gb=wire["disk"],
        ephemeral_gb=wire["ephemeral"],
        swap_mb=wire["swap"],
        extra_specs=dict(wire["extra_specs"]),
    )


def image_to_wire(image: Image) -> dict[str, Any]:
    """Return an image as an object that is encoded as JSON."""
    return {"id": image.id, "name": image.name, "properties": dict(image.properties)}


def image_from_wire(wire: Mapping[str, Any]) -> Image:
    """Return the image of a validated object."""
    return Image(id=wire["id"], name=wire["name"], properties=dict(wire["properties"]))


def spec_to_row(spec: RequestSpec) -> dict[str, Any]:
    """Return the spec as its own zone stores it: the wire form, and the members that never leave the zone."""
    row = {**spec_to_wire(spec), "hints": dict(spec.hints)}
    if spec.traced_by:
        row["traced_by"] = spec.traced_by
    match spec.enabled:
        case ChosenFilters(names):
            return {**row, "enabled_filters": list(names)}
        case AsConfigured():
            return row


def spec_from_row(row: Mapping[str, Any]) -> RequestSpec:
    """Return the spec of a row that `spec_to_row` returned."""
    spec = replace(spec_from_wire(row), traced_by=row.get("traced_by", ""))
    if "enabled_filters" not in row:
        return spec
    return replace(spec, enabled=ChosenFilters(tuple(row["enabled_filters"])))


def _group_to_wire(group: Group) -> dict[str, Any]:
    match group:
        case ServerGroup(group_id, policy, max_per_host):
            return {"name": policy.value, "id": group_id, "max_server_per_host": max_per_host}
        case NoGroup():
            return {"name": "none"}


def _group_from_wire(wire: Mapping[str, Any]) -> Group:
    if wire["name"] == "none":
        return NoGroup()
    return ServerGroup(wire["id"], GroupPolicy(wire["name"]), wire["max_server_per_host"])


def _weighing_to_wire(weighing: Weighing) -> dict[str, Any]:
    match weighing:
        case ScoreWeighing(scales):
            return {
                "name": "score",
                "scales": [
                    {"weigher": s.weigher, "low": s.low, "high": s.high, "multiplier": s.multiplier}
                    for s in scales
                ],
            }
        case CostWeighing(driver, functions):
            return {
                "name": "cost",
                "driver": driver,
                "functions": [{"name": f.name, "weight": f.weight} for f in functions],
            }
        case Unweighed():
            return {"name": "unweighed"}


def _weighing_from_wire(wire: Mapping[str, Any]) -> Weighing:
    match wire["name"]:
        case "score":
            return ScoreWeighing(
                tuple(
                    WeigherScale(s["weigher"], float(s["low"]), float(s["high"]), float(s["multiplier"]))
                    for s in wire["scales"]
                )
            )
        case "cost":
            functions = tuple(CostFunction(f["name"], float(f["weight"])) for f in wire["functions"])
            return CostWeighing(wire["driver"], functions)
        case _:
            return Unweighed()
