"""The audit of this zone's own rows."""

from __future__ import annotations

from dataclasses import asdict

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.services import audit


def run(call: Call) -> Answer:
    """Compare claims, instances and reservations; no difference is an empty list."""
    return ok({"differences": [asdict(difference) for difference in audit.run(call.zone)]})
