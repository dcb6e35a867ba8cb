"""Whether the process lives, whether the zone can work, what it counts, and what it understands."""

from __future__ import annotations

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.api.metrics import MEDIA_TYPE
from zonesched.services.select import info


def health(call: Call) -> Answer:
    """Whether the process answers."""
    return ok({"status": "ok"})


def readiness(call: Call) -> Answer:
    """Whether the zone can take requests: its rows can be read."""
    if info.is_ready(call.zone):
        return ok({"status": "ready"})
    return Answer(503, {"status": "not ready"})


def metrics(call: Call) -> Answer:
    """Counters in Prometheus' text form."""
    return Answer(200, call.site.metrics.text(), media_type=MEDIA_TYPE)


def openapi(call: Call) -> Answer:
    """This description."""
    return Answer(200, call.site.document)
