"""OpenStack's list of extensions, for clients that look there for what a zone has."""

from __future__ import annotations

from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.errors import NotFound

EXTENSIONS = {
    "os-aggregates": "Aggregates",
    "os-availability-zone": "AvailabilityZone",
    "os-flavor-access": "FlavorAccess",
    "os-flavor-extra-specs": "FlavorExtraSpecs",
    "os-hosts": "Hosts",
    "os-hypervisors": "Hypervisors",
    "os-keypairs": "Keypairs",
    "os-migrations": "Migrations",
    "os-multiple-create": "MultipleCreate",
    "os-quota-sets": "Quotas",
    "os-scheduler-hints": "SchedulerHints",
    "os-server-diagnostics": "ServerDiagnostics",
    "os-server-external-events": "ServerExternalEvents",
    "os-server-groups": "ServerGroups",
    "os-services": "Services",
    "os-simple-tenant-usage": "SimpleTenantUsage",
    "os-used-limits": "UsedLimits",
}
"""Names by alias."""


def list_all(call: Call) -> Answer:
    """List the extensions of OpenStack's API that this zone has."""
    return ok({"extensions": [_json(alias) for alias in EXTENSIONS]})


def show(call: Call) -> Answer:
    """Show one extension."""
    if call.args["id"] not in EXTENSIONS:
        raise NotFound("There is no such extension.", code="extension_not_found", field="id")
    return ok({"extension": _json(call.args["id"])})


def _json(alias: str) -> dict[str, Any]:
    return {
        "alias": alias,
        "name": EXTENSIONS[alias],
        "description": "",
        "links": [],
        "namespace": "http://docs.openstack.org/compute/ext/fake_xml",
        "updated": "2014-12-03T00:00:00Z",
    }
