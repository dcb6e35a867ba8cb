"""Projects, their quotas and usage, and users."""

from __future__ import annotations

from collections.abc import Mapping

from zonesched.api.openapi_answers.forms import (
    LINKS,
    NULL,
    NUMBER,
    TEXT,
    TIME,
    TRUTH,
    UUID,
    WHOLE,
    ZONELESS,
    Form,
    list_of,
    map_of,
    object_of,
    one_of,
    or_null,
)

_RATE = object_of(
    {
        **dict.fromkeys(("name", "uri", "regex"), TEXT),
        "limit": list_of(
            object_of(
                {
                    "verb": one_of("POST"),
                    "value": WHOLE,
                    "remaining": WHOLE,
                    "unit": one_of("MINUTE", "HOUR"),
                    "next-available": TIME,
                }
            )
        ),
    }
)
_LIMITS: Mapping[str, Form] = {"absolute": map_of(WHOLE), "rate": list_of(_RATE)}
_OVERRIDES = object_of({"limits": object_of({**_LIMITS, "overrides": map_of(WHOLE)})})

_QUOTAS = (
    "instances",
    "cores",
    "ram",
    "key_pairs",
    "metadata_items",
    "server_groups",
    "server_group_members",
)
_OLD_QUOTAS = (
    "fixed_ips",
    "floating_ips",
    "security_group_rules",
    "security_groups",
    "injected_file_content_bytes",
    "injected_file_path_bytes",
    "injected_files",
)


def _quotas(name: str, form: Form, *, named: bool) -> Form:
    id: Mapping[str, Form] = {"id": TEXT} if named else {}
    quotas = object_of({**id, **dict.fromkeys(_QUOTAS, form)}, dict.fromkeys(_OLD_QUOTAS, form))
    return object_of({name: quotas})


_IN_USE = object_of(dict.fromkeys(("limit", "in_use", "reserved"), WHOLE))

_SERVER_USAGE = object_of(
    {
        "instance_id": UUID,
        **dict.fromkeys(("name", "tenant_id", "flavor", "state"), TEXT),
        **dict.fromkeys(("vcpus", "memory_mb", "local_gb", "uptime"), WHOLE),
        "hours": NUMBER,
        "started_at": ZONELESS,
        "ended_at": or_null(ZONELESS),
    }
)
_USAGE = object_of(
    {
        "tenant_id": TEXT,
        "start": ZONELESS,
        "stop": ZONELESS,
        **dict.fromkeys(
            ("total_hours", "total_vcpus_usage", "total_memory_mb_usage", "total_local_gb_usage"), NUMBER
        ),
    },
    {"server_usages": list_of(_SERVER_USAGE)},
)
_NO_USAGE = object_of({})

_PROJECT = object_of(
    {
        **dict.fromkeys(("id", "name", "domain_id", "parent_id", "description"), TEXT),
        "is_domain": TRUTH,
        "enabled": TRUTH,
        "tags": list_of(TEXT),
        "options": object_of({}),
        "links": object_of({"self": TEXT}),
    }
)
_IDENTITY_USER = object_of(
    {
        **dict.fromkeys(("id", "name", "domain_id"), TEXT),
        "default_project_id": or_null(TEXT),
        "enabled": TRUTH,
        "password_expires_at": NULL,
        "options": object_of({}),
        "links": object_of({"self": TEXT}),
    }
)
_WHOLE_LIST = object_of({"self": TEXT, "previous": NULL, "next": NULL})
_USER: Mapping[str, Form] = {"id": UUID, "name": TEXT, "role": TEXT, "project_id": TEXT}
_LEVEL = {"explain_to_parent": TEXT}
_MADE = object_of({"user": object_of(_USER, {**_LEVEL, "secret": TEXT})})

ANSWERS: Mapping[str, Form] = {
    "limits_show 200": object_of({"limits": object_of(_LIMITS)}),
    "limits_list_overrides 200": object_of(dict.fromkeys(("projects", "parents"), map_of(map_of(WHOLE)))),
    **dict.fromkeys(
        (f"limits_{what}_{whose} 200" for what in ("show", "change") for whose in ("project", "parent")),
        _OVERRIDES,
    ),
    **dict.fromkeys(
        ("quota_sets_show 200", "quota_sets_defaults 200"), _quotas("quota_set", WHOLE, named=True)
    ),
    "quota_sets_show_detail 200": _quotas("quota_set", _IN_USE, named=True),
    "quota_sets_change 200": _quotas("quota_set", WHOLE, named=False),
    "quota_sets_show_class 200": _quotas("quota_class_set", WHOLE, named=True),
    "quota_sets_change_class 200": _quotas("quota_class_set", WHOLE, named=False),
    "server_usage_list_all 200": object_of(
        {"tenant_usages": list_of(_USAGE)}, {"tenant_usages_links": LINKS}
    ),
    "server_usage_show 200": object_of(
        {"tenant_usage": {"anyOf": [_USAGE, _NO_USAGE]}}, {"tenant_usage_links": LINKS}
    ),
    "identity_list_projects 200": object_of({"projects": list_of(_PROJECT), "links": _WHOLE_LIST}),
    "identity_show_project 200": object_of({"project": _PROJECT}),
    "identity_list_users 200": object_of({"users": list_of(_IDENTITY_USER), "links": _WHOLE_LIST}),
    "identity_show_user 200": object_of({"user": _IDENTITY_USER}),
    "users_list_users 200": object_of({"users": list_of(object_of(_USER, _LEVEL))}),
    **dict.fromkeys(("users_create 201", "users_change 200"), _MADE),
    "sign_in_links_create 201": object_of({"sign_in_link": object_of({"path": TEXT, "expires_in": NUMBER})}),
}
