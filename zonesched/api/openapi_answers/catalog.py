"""Flavors, images, key pairs and server groups."""

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
    either,
    list_of,
    map_of,
    object_of,
    one_of,
    or_null,
)

_TEXTS = map_of(TEXT)
_DESCRIBED = {"description": or_null(TEXT)}
_BRIEF_FLAVOR: Mapping[str, Form] = {"id": TEXT, "name": TEXT, "links": LINKS}
_FLAVOR = object_of(
    {
        **_BRIEF_FLAVOR,
        **dict.fromkeys(("vcpus", "ram", "disk", "OS-FLV-EXT-DATA:ephemeral"), WHOLE),
        # An empty text before 2.75, where there is none.
        "swap": either(WHOLE, {"const": ""}),
        "rxtx_factor": NUMBER,
        "OS-FLV-DISABLED:disabled": TRUTH,
        "os-flavor-access:is_public": TRUTH,
    },
    {**_DESCRIBED, "extra_specs": _TEXTS},
)
_ONE_FLAVOR = object_of({"flavor": _FLAVOR})
_ACCESS = object_of({"flavor_access": list_of(object_of({"flavor_id": TEXT, "tenant_id": TEXT}))})
_EXTRA_SPECS = object_of({"extra_specs": _TEXTS})

_BRIEF_IMAGE: Mapping[str, Form] = {"id": TEXT, "name": TEXT, "links": LINKS}
_IMAGE = object_of(
    {
        **_BRIEF_IMAGE,
        "status": one_of("ACTIVE"),
        **dict.fromkeys(("progress", "minDisk", "minRam", "OS-EXT-IMG-SIZE:size"), WHOLE),
        "created": TIME,
        "updated": TIME,
        "metadata": _TEXTS,
        "properties": _TEXTS,
    }
)
_ONE_IMAGE = object_of({"image": _IMAGE})
_METADATA, _META = object_of({"metadata": _TEXTS}), object_of({"meta": _TEXTS})
_GLANCE_IMAGE: Form = {
    # Properties of an image stand beside its other members.
    **object_of(
        {
            "id": TEXT,
            "name": TEXT,
            "status": one_of("active"),
            "visibility": one_of("public"),
            "protected": TRUTH,
            "os_hidden": TRUTH,
            **dict.fromkeys(("min_disk", "min_ram", "size"), WHOLE),
            **dict.fromkeys(("virtual_size", "checksum", "os_hash_algo", "os_hash_value", "owner"), NULL),
            "container_format": TEXT,
            "disk_format": TEXT,
            "tags": list_of(TEXT),
            "created_at": TIME,
            "updated_at": TIME,
            **dict.fromkeys(("self", "file", "schema"), TEXT),
        }
    ),
    "additionalProperties": TEXT,
}

_BRIEF_KEY: Mapping[str, Form] = {"name": TEXT, "public_key": TEXT, "fingerprint": TEXT}
_TYPED = {"type": one_of("ssh")}
_KEY = object_of(
    {
        **_BRIEF_KEY,
        "id": WHOLE,
        "user_id": TEXT,
        "created_at": ZONELESS,
        "updated_at": NULL,
        "deleted": TRUTH,
        "deleted_at": NULL,
    },
    _TYPED,
)
_NEW_KEY = object_of({"keypair": object_of({**_BRIEF_KEY, "user_id": TEXT}, {**_TYPED, "private_key": TEXT})})

_GROUP = object_of(
    {
        "id": UUID,
        "name": TEXT,
        "policy": TEXT,
        "policies": list_of(TEXT),
        "rules": object_of({}, {"max_server_per_host": WHOLE}),
        "members": list_of(UUID),
        "metadata": object_of({}),
        "project_id": TEXT,
        "user_id": TEXT,
    }
)
_ONE_GROUP = object_of({"server_group": _GROUP})

ANSWERS: Mapping[str, Form] = {
    "flavors_list_brief 200": object_of(
        {"flavors": list_of(object_of(_BRIEF_FLAVOR, _DESCRIBED))}, {"flavors_links": LINKS}
    ),
    "flavors_list_detail 200": object_of({"flavors": list_of(_FLAVOR)}, {"flavors_links": LINKS}),
    **dict.fromkeys((f"flavors_{name} 200" for name in ("create", "show", "change")), _ONE_FLAVOR),
    **dict.fromkeys(("flavors_act 200", "flavors_list_access 200"), _ACCESS),
    **dict.fromkeys(("flavors_list_extra_specs 200", "flavors_set_extra_specs 200"), _EXTRA_SPECS),
    **dict.fromkeys(("flavors_show_extra_spec 200", "flavors_set_extra_spec 200"), _TEXTS),
    "images_list_brief 200": object_of({"images": list_of(object_of(_BRIEF_IMAGE))}, {"images_links": LINKS}),
    "images_list_detail 200": object_of({"images": list_of(_IMAGE)}, {"images_links": LINKS}),
    **dict.fromkeys(("images_create 201", "images_show 200"), _ONE_IMAGE),
    **dict.fromkeys((f"images_{name}_metadata 200" for name in ("list", "add", "replace")), _METADATA),
    **dict.fromkeys(("images_show_metadata 200", "images_set_metadata 200"), _META),
    "glance_list_all 200": object_of(
        {"images": list_of(_GLANCE_IMAGE), "first": TEXT, "schema": TEXT}, {"next": TEXT}
    ),
    "glance_show 200": _GLANCE_IMAGE,
    "keypairs_list_all 200": object_of(
        {"keypairs": list_of(object_of({"keypair": object_of(_BRIEF_KEY, _TYPED)}))},
        {"keypairs_links": LINKS},
    ),
    "keypairs_show 200": object_of({"keypair": _KEY}),
    **dict.fromkeys(("keypairs_create 200", "keypairs_create 201"), _NEW_KEY),
    "server_groups_list_all 200": object_of({"server_groups": list_of(_GROUP)}),
    **dict.fromkeys(("server_groups_show 200", "server_groups_create 200"), _ONE_GROUP),
}
