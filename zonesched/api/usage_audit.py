"""OpenStack Nova's log of usage audits: a zone runs none, so none of its hosts has."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.api.schemas.moments import exact_epoch_s
from zonesched.errors import BadRequest
from zonesched.model.views import Binary
from zonesched.services.hosts import services


def show(call: Call) -> Answer:
    """Show the audit of the last whole month: no host has run one."""
    return ok({"instance_usage_audit_logs": _json(call, call.zone.clock.now())})


def show_before(call: Call) -> Answer:
    """Show the audit of the last whole month before a time: no host has run one."""
    try:
        found = _json(call, exact_epoch_s(call.args["before"]))
    except ValueError:
        raise BadRequest("before: must be a time such as 2026-01-01 00:00:00.", field="before") from None
    return ok({"instance_usage_audit_log": found})


def _json(call: Call, before_s: float) -> dict[str, Any]:
    """Return the audit of the whole month before a time. Raises ValueError before the year 2."""
    hosts = sorted(one.host for one in services.list_services(call.zone, binary=Binary.HOST.value))
    end = datetime.fromtimestamp(before_s, UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    begin = end.replace(year=end.year - (end.month == 1), month=(end.month - 2) % 12 + 1)
    return {
        "hosts_not_run": hosts,
        "log": {},
        "num_hosts": len(hosts),
        "num_hosts_done": 0,
        "num_hosts_not_run": len(hosts),
        "num_hosts_running": 0,
        "overall_status": f"0 of {len(hosts)} hosts done. 0 errors.",
        "period_beginning": f"{begin:%Y-%m-%d %H:%M:%S}",
        "period_ending": f"{end:%Y-%m-%d %H:%M:%S}",
        "total_errors": 0,
        "total_instances": 0,
    }
