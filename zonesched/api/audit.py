"""The audit of this zone's own rows, and of each edge to a child."""

from __future__ import annotations

from dataclasses import asdict

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.services import audit, audit_edges


def run(call: Call) -> Answer:
    """Compare claims, instances and reservations, here and with each child; none is an empty list."""
    found = [*audit.run(call.zone), *audit_edges.across_edges(call.zone)]
    return ok({"differences": [asdict(difference) for difference in found]})
