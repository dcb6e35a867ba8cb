"""Child zones, selects, boots and audits; versions, extensions and probes."""

from __future__ import annotations

from collections.abc import Mapping

from zonesched.api.openapi_answers.forms import (
    ANY_OBJECT,
    LINKS,
    NUMBER,
    TEXT,
    TIME,
    TRUTH,
    UUID,
    WHOLE,
    Form,
    list_of,
    map_of,
    object_of,
    one_of,
    or_null,
)
from zonesched.api.openapi_answers.servers import BUILD, CHANGED_OF_PARENT

_BRIEF: Mapping[str, Form] = {"id": UUID, "name": TEXT, "is_active": TRUTH, "state": TEXT}
_ZONE = object_of(
    {
        **_BRIEF,
        **dict.fromkeys(("api_url", "username", "last_error"), TEXT),
        "weight_offset": NUMBER,
        "weight_scale": NUMBER,
        "seen_at": or_null(TIME),
    }
)
_ONE = object_of({"zone": _ZONE})
_RANGES = map_of(TEXT)
_INFO = object_of(
    {
        "name": TEXT,
        "uuid": UUID,
        "zone_capabilities": list_of(TEXT),
        "services": object_of({"compute": _RANGES}),
        "weighers": _RANGES,
        "traits": list_of(TEXT),
        "availability_zones": list_of(TEXT),
        "blob_size": WHOLE,
        **dict.fromkeys(("can_seal", "has_pages", "complete", "recovering"), TRUTH),
        "start": UUID,
    }
)
_WHY = object_of({"filter": TEXT, "code": TEXT}, {"before": WHOLE, "after": WHOLE})
_WHYS = list_of(_WHY)
_SEALED = object_of({"weight": WHOLE, "tie": WHOLE, "blob": TEXT})
_OFFER = object_of(
    {
        "version": WHOLE,
        "weights": list_of(_SEALED),
        "alternates": list_of(_SEALED),
        "bundles": list_of(object_of({"weight": WHOLE, "tie": WHOLE, "blobs": list_of(TEXT)})),
        "complete": TRUTH,
        "database_away": TRUTH,
        "more": TRUTH,
        "expires_in": NUMBER,
        "why": _WHYS,
        "runs_out": _WHYS,
    }
)
_SCORES = list_of(object_of({"weigher": TEXT, **dict.fromkeys(("raw", "multiplier", "score"), NUMBER)}))
_BEST = object_of({"id": TEXT, "host": TEXT, "weight": WHOLE, "scores": _SCORES})


def _trace(more: Mapping[str, Form]) -> Form:
    """Make the form of a decision trace, whose zones have more members in a dry run."""
    own = {"offered": WHOLE, "steps": _WHYS, "runs_out": _WHYS, "best": list_of(_BEST), **more}
    child = {
        **dict.fromkeys(("id", "name", "outcome", "code"), TEXT),
        "offered": WHOLE,
        "why": _WHYS,
        "runs_out": _WHYS,
        **more,
    }
    return object_of({"own": object_of(own), "children": list_of(object_of(child))})


_DRY_RUN = object_of(
    {
        "num_instances": WHOLE,
        "fits": WHOLE,
        "complete": TRUTH,
        "runs_out": _WHYS,
        "refused_by": list_of(TEXT),
    },
    {"why": _trace({"fits": WHOLE})},
)
_LINE: Mapping[str, Form] = {
    "id": UUID,
    "state": TEXT,
    "num_instances": WHOLE,
    "min_count": WHOLE,
    "counts": map_of(WHOLE),
    "created": TIME,
}
_RESERVATION = object_of(
    {
        **_LINE,
        "reasons": list_of(object_of({"code": TEXT, "count": WHOLE, "refused_by": list_of(TEXT)})),
        "waiting_for": list_of(object_of({"code": TEXT, "count": WHOLE}, {"at": TIME, "child_zone": TEXT})),
        "instances": list_of(object_of({"uuid": UUID, "status": TEXT})),
    },
    {"why": _trace({})},
)
_BUILDS = object_of({"builds": list_of(BUILD)})
_JUDGED = object_of(
    {
        "id": UUID,
        "host": TEXT,
        "passes": TRUTH,
        "filters": list_of(object_of({"filter": TEXT, "code": TEXT, "passes": TRUTH})),
        "weight": or_null(WHOLE),
        "scores": _SCORES,
    }
)
_FOUND: Mapping[str, Form] = {"kind": TEXT, "subject": TEXT, "detail": TEXT}
_REPORT: Mapping[str, Form] = {
    "inconsistencies": list_of(object_of({"kind": TEXT, "id": TEXT})),
    "complete": TRUTH,
}
_VERSION: Mapping[str, Form] = {"id": TEXT, "status": TEXT, "links": LINKS}
_COMPUTE = {**_VERSION, **dict.fromkeys(("version", "min_version", "updated"), TEXT)}
_MEDIA = {"media-types": list_of(object_of({"base": TEXT, "type": TEXT}))}
_IDENTITY = object_of({**_VERSION, "updated": TEXT})
_EXTENSION = object_of(
    {
        **dict.fromkeys(("alias", "name", "description", "namespace", "updated"), TEXT),
        "links": list_of(object_of({})),
    }
)
_STATUS = object_of({"status": one_of("ok", "recovering", "ready", "not ready")})

ANSWERS: Mapping[str, Form] = {
    "zones_list_brief 200": object_of({"zones": list_of(object_of(_BRIEF))}),
    "zones_list_detail 200": object_of({"zones": list_of(_ZONE)}),
    **dict.fromkeys(("zones_add 201", "zones_show 200", "zones_change 200"), _ONE),
    "zones_act 202": object_of(
        {
            "drain": object_of(
                {
                    "asked": list_of(UUID),
                    "on_their_way": list_of(UUID),
                    **dict.fromkeys(("leaving", "waiting", "held_up", "staying_count"), WHOLE),
                    "staying": list_of(
                        object_of(dict.fromkeys(("id", "name", "error_code", "message"), TEXT))
                    ),
                }
            )
        }
    ),
    "zones_info 200": object_of({"zone": _INFO}),
    "zones_select 200": _OFFER,
    "zones_boot 202": object_of({"reservation_id": UUID}),
    "zones_boot 200": object_of({"dry_run": _DRY_RUN}, {"record": ANY_OBJECT}),
    "reservations_show 200": object_of({"reservation": _RESERVATION}),
    "reservations_list_boots 200": object_of(
        {
            "reservations": list_of(
                object_of({**_LINE, **dict.fromkeys(("name", "flavor", "project_id"), TEXT)})
            )
        },
        {"reservations_links": LINKS},
    ),
    "reservations_changes 200": object_of(
        {"instances": list_of(CHANGED_OF_PARENT), "cursor": TEXT, "more": TRUTH}
    ),
    "reservations_why_host 200": object_of({"host": _JUDGED}),
    "reservations_name 200": object_of({"taken": TRUTH}),
    **dict.fromkeys(("reservations_confirm 200", "reservations_cancel 200"), _BUILDS),
    "audit_run 200": object_of(
        {"inconsistencies": list_of(object_of(_FOUND))},
        {"children": list_of(object_of({"id": UUID, "name": TEXT, **_REPORT}))},
    ),
    "audit_report 200": object_of({"version": WHOLE, **_REPORT}),
    "audit_repair 200": object_of(
        {"inconsistencies": list_of(object_of({**_FOUND, "repaired": TRUTH, "action": TEXT}))}
    ),
    "versions_list_versions 200": object_of({"versions": list_of(object_of(_COMPUTE))}),
    "versions_show 200": object_of({"version": object_of({**_COMPUTE, **_MEDIA})}),
    "glance_list_versions 200": object_of({"versions": list_of(object_of(_VERSION))}),
    "glance_show_version 200": object_of({"version": object_of(_VERSION)}),
    "identity_list_versions 200": object_of({"versions": object_of({"values": list_of(_IDENTITY)})}),
    "identity_show_version 200": object_of({"version": _IDENTITY}),
    "extensions_list_all 200": object_of({"extensions": list_of(_EXTENSION)}),
    "extensions_show 200": object_of({"extension": _EXTENSION}),
    **dict.fromkeys(("health_health 200", "health_readiness 200", "health_readiness 503"), _STATUS),
    "health_openapi 200": object_of(
        {
            "openapi": TEXT,
            **dict.fromkeys(("info", "paths", "components"), ANY_OBJECT),
            **dict.fromkeys(("servers", "security"), list_of(ANY_OBJECT)),
        }
    ),
}
