"""Quotas of projects and parents and their usage, in OpenStack's form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.services.catalog import quota_overrides
from zonesched.services.catalog.quota_overrides import LimitsView
from zonesched.services.state.quotas import Limit


def show(call: Call) -> Answer:
    """Show the quotas of the caller's project, or of a parent, and their usage."""
    return ok({"limits": _json(quota_overrides.of_caller(call.zone.store, call.zone.quotas, call.caller))})


def list_overrides(call: Call) -> Answer:
    """List the projects and parents that have quota overrides."""
    found = quota_overrides.list_all(call.zone.store)
    return ok({"projects": dict(found.projects), "parents": dict(found.parents)})


def show_project(call: Call) -> Answer:
    """Show the quotas of one project."""
    return _of(quota_overrides.of_project(call.zone.store, call.zone.quotas, call.args["id"]))


def change_project(call: Call) -> Answer:
    """Set quota overrides of one project, or remove them."""
    return _of(
        quota_overrides.change_project(
            call.zone.store, call.zone.quotas, call.args["id"], call.body.limits.to_changes()
        )
    )


def show_parent(call: Call) -> Answer:
    """Show the quotas of one parent."""
    return _of(quota_overrides.of_parent(call.zone.store, call.zone.quotas, call.args["name"]))


def change_parent(call: Call) -> Answer:
    """Set quota overrides of one parent, or remove them."""
    return _of(
        quota_overrides.change_parent(
            call.zone.store, call.zone.quotas, call.args["name"], call.body.limits.to_changes()
        )
    )


def _of(view: LimitsView) -> Answer:
    return ok({"limits": {**_json(view.limits), "overrides": dict(view.overrides)}})


def _json(found: Sequence[Limit]) -> dict[str, Any]:
    absolute = {key: value for limit in found if not limit.unit for key, value in _absolute(limit)}
    return {"absolute": absolute, "rate": [_rate(limit) for limit in found if limit.unit]}


def _absolute(limit: Limit) -> list[tuple[str, int]]:
    return [(limit.name, limit.value), *([(f"{limit.name}_used", limit.used)] if limit.is_counted else [])]


def _rate(limit: Limit) -> dict[str, Any]:
    left = max(0, limit.value - limit.used)
    return {"name": limit.name, "limit": [{"value": limit.value, "remaining": left, "unit": limit.unit}]}
