"""Version discovery, as OpenStack's clients ask for it."""

from __future__ import annotations

from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.api.links import PREFIX
from zonesched.api.microversion import NEWEST, OLDEST


def list_versions(call: Call) -> Answer:
    """List the versions of this API."""
    return ok({"versions": [_version(call)]})


def show(call: Call) -> Answer:
    """Show this version of the API."""
    media = {
        "base": "application/json",
        "type": f"application/vnd.openstack.compute+json;version={OLDEST}",
    }
    return ok({"version": {**_version(call), "media-types": [media]}})


def _version(call: Call) -> dict[str, Any]:
    return {
        "id": "v2.1",
        "status": "CURRENT",
        "version": str(NEWEST),
        "min_version": str(OLDEST),
        "updated": "2013-07-23T11:33:21Z",
        "links": [
            {"rel": "self", "href": f"{call.links.base}{PREFIX}/"},
            {"rel": "describedby", "type": "application/json", "href": f"{call.links.base}/openapi.json"},
        ],
    }
