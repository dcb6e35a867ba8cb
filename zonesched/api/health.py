"""Probes, metrics and the OpenAPI description."""

from __future__ import annotations

from zonesched.api.answer import Answer, ok
from zonesched.api.call import Call
from zonesched.api.metrics import MEDIA_TYPE, text_without_rows
from zonesched.services.select import info


def health(call: Call) -> Answer:
    """Say that the process is alive, and whether its zone was restored and awaits its neighbours."""
    return ok({"status": "recovering" if info.is_recovering(call.zone) else "ok"})


def readiness(call: Call) -> Answer:
    """Say whether the zone can take requests: 200 while its rows can be read, else 503."""
    if info.is_ready(call.zone.store):
        return ok({"status": "ready"})
    return Answer(503, {"status": "not ready"})


def metrics(call: Call) -> Answer:
    """Return the metrics in Prometheus' text form."""
    return Answer(200, call.site.metrics.text(), media_type=MEDIA_TYPE)


def metrics_without_rows() -> Answer:
    """Return the metric that says no more than `readiness` does."""
    return Answer(200, text_without_rows(), media_type=MEDIA_TYPE)


def openapi(call: Call) -> Answer:
    """Return this description."""
    return Answer(200, call.site.document())
