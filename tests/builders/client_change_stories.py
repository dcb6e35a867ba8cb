"""Stories of changes: each command line is followed by what the root's rows say after it.

`ROWS A statement` -> a pattern of its rows, a line each, with `|` between the columns. `sdk METHOD ARGUMENTS`
calls a method of openstacksdk with arguments in JSON. `{flavors[NAME]}` and the like are ids, by name.
"""

from __future__ import annotations

import re

from tests.builders.client_story_lines import KEY, NOTHING, Line, Printed, rows
from tests.builders.forms import FINGERPRINT, UUID, ZONELESS

NEW_FLAVOR = {
    "id": UUID,
    "vcpus": 1,
    "ram": 64,
    "disk": 1,
    "ephemeral": 0,
    "swap": 0,
    "is_disabled": False,
    "rxtx_factor": 1.0,
}
SPECS_ALONE = {"disk": 0, "is_public": True, "ram": 0, "vcpus": 0, "swap": 0, "ephemeral": 0}
"""Values of openstacksdk for a flavor of which it has the extra specs alone."""


def aggregate_of_sdk(*, updated: bool = True, hosts: bool = False, **members: object) -> dict[str, object]:
    return {
        "id": int,
        "uuid": UUID,
        "is_deleted": False,
        "created_at": ZONELESS,
        "availability_zone": "az-s",
        **({"updated_at": ZONELESS} if updated else {}),
        **({"hosts": ["root-general-1"]} if hosts else {}),
        **members,
    }


def service_of_sdk(**members: object) -> dict[str, object]:
    return {
        "availability_zone": "root-rack-1",
        "binary": "nova-compute",
        "host": "root-gpu-4",
        "id": UUID,
        "is_forced_down": False,
        "name": "nova-compute",
        "state": "up",
        "status": "enabled",
        "updated_at": ZONELESS,
        **members,
    }


def group(policy: str, name: str) -> dict[str, object]:
    return {"id": UUID, "name": name, "policy": policy, "project_id": "admin", "user_id": UUID}


HOST = "enabled, disabled_reason, forced_down FROM hosts WHERE name = 'root-gpu-4'"
QUOTAS = "name, hard_limit FROM quota_overrides WHERE subject = 'admin'"
LIMITS_OF_SDK = {
    "cores": -1,
    "ram": -1,
    "key_pairs": 100,
    "metadata_items": 128,
    "server_groups": 1000,
    "server_group_members": -1,
    **dict.fromkeys(("injected_file_content_bytes", "injected_file_path_bytes", "injected_files"), 0),
}

CATALOG_CHANGES: dict[str, tuple[Line, ...]] = {
    "flavors, with openstacksdk": (
        (
            'sdk create_flavor [[], {{"name": "s-f", "vcpus": 1, "ram": 64, "disk": 1, "is_public": false}}]',
            Printed({**NEW_FLAVOR, "name": "s-f", "is_public": False}),
        ),
        rows(
            "vcpus, ram_mb, disk_gb, ephemeral_gb, swap_mb, is_public, description, extra_specs FROM flavors"
            " WHERE id = '{flavors[s-f]}'",
            r"^1\|64\|1\|0\|0\|0\|\|\{\}$",
        ),
        (
            'sdk update_flavor [["{flavors[s-f]}"], {{"description": "words"}}]',
            Printed({**NEW_FLAVOR, "name": "s-f", "is_public": False, "description": "words"}),
        ),
        rows("description FROM flavors WHERE id = '{flavors[s-f]}'", "^words$"),
        (
            'sdk flavors [[], {{"is_public": false, "sort_key": "name", "min_disk": 1}}]',
            Printed([{**NEW_FLAVOR, "name": "s-f", "is_public": False, "description": "words"}]),
        ),
        rows("name FROM flavors WHERE NOT is_public", "^s-f$"),
        ('sdk flavor_add_tenant_access [["{flavors[s-f]}", "p1"], {{}}]', Printed(None)),
        rows("project_id FROM flavor_projects WHERE flavor_id = '{flavors[s-f]}'", "^p1$"),
        (
            'sdk get_flavor_access [["{flavors[s-f]}"], {{}}]',
            Printed([{"flavor_id": UUID, "tenant_id": "p1"}]),
        ),
        rows("project_id FROM flavor_projects WHERE flavor_id = '{flavors[s-f]}'", "^p1$"),
        ('sdk flavor_remove_tenant_access [["{flavors[s-f]}", "p1"], {{}}]', Printed(None)),
        rows("project_id FROM flavor_projects WHERE flavor_id = '{flavors[s-f]}'", NOTHING),
        (
            'sdk create_flavor_extra_specs [["{flavors[s-f]}", {{"a:b": "c"}}], {{}}]',
            Printed({**SPECS_ALONE, "id": UUID, "extra_specs": {"a:b": "c"}}),
        ),
        rows("extra_specs FROM flavors WHERE id = '{flavors[s-f]}'", r'^\{"a:b":"c"\}$'),
        (
            'sdk fetch_flavor_extra_specs [["{flavors[s-f]}"], {{}}]',
            Printed({**SPECS_ALONE, "id": UUID, "extra_specs": {"a:b": "c"}}),
        ),
        rows("extra_specs FROM flavors WHERE id = '{flavors[s-f]}'", r'^\{"a:b":"c"\}$'),
        ('sdk get_flavor_extra_specs_property [["{flavors[s-f]}", "a:b"], {{}}]', Printed("c")),
        rows("extra_specs FROM flavors WHERE id = '{flavors[s-f]}'", r'^\{"a:b":"c"\}$'),
        ('sdk update_flavor_extra_specs_property [["{flavors[s-f]}", "a:b", "d"], {{}}]', Printed("d")),
        rows("extra_specs FROM flavors WHERE id = '{flavors[s-f]}'", r'^\{"a:b":"d"\}$'),
        ('sdk delete_flavor_extra_specs_property [["{flavors[s-f]}", "a:b"], {{}}]', Printed(None)),
        rows("extra_specs FROM flavors WHERE id = '{flavors[s-f]}'", r"^\{\}$"),
        ('sdk delete_flavor [["{flavors[s-f]}"], {{}}]', Printed(None)),
        rows("id FROM flavors WHERE name = 's-f'", NOTHING),
    ),
    "flavors, with the older client": (
        ("nova flavor-create n-f auto 64 1 1 --is-public false", r"\| n-f +\| 64 +\| 1 +\| 0 +\| 0 +\| 1 "),
        rows(
            "vcpus, ram_mb, disk_gb, ephemeral_gb, swap_mb, is_public FROM flavors WHERE name = 'n-f'",
            r"^1\|64\|1\|0\|0\|0$",
        ),
        ("nova flavor-access-add n-f p", r"\| p +\|"),
        rows("project_id FROM flavor_projects WHERE flavor_id = '{flavors[n-f]}'", "^p$"),
        ("nova flavor-access-list --flavor n-f", Printed([{"Flavor_ID": UUID, "Tenant_ID": "p"}])),
        rows("project_id FROM flavor_projects WHERE flavor_id = '{flavors[n-f]}'", "^p$"),
        ("nova flavor-access-remove n-f p", Printed([])),
        rows("project_id FROM flavor_projects WHERE flavor_id = '{flavors[n-f]}'", NOTHING),
        ("nova flavor-key n-f set a:b=c", NOTHING),
        rows("extra_specs FROM flavors WHERE name = 'n-f'", r'^\{"a:b":"c"\}$'),
        ("nova flavor-update n-f text", r"\| text +\|"),
        rows("description FROM flavors WHERE name = 'n-f'", "^text$"),
        ("nova flavor-delete n-f", NOTHING),
        rows("id FROM flavors WHERE name = 'n-f'", NOTHING),
    ),
    "aggregates, with openstacksdk": (
        (
            'sdk create_aggregate [[], {{"name": "s-a", "availability_zone": "az-s"}}]',
            Printed(aggregate_of_sdk(updated=False, name="s-a", metadata={"availability_zone": "az-s"})),
        ),
        rows("name, metadata FROM aggregates", r'^s-a\|\{"availability_zone":"az-s"\}$'),
        (
            'sdk get_aggregate [["{aggregates[s-a]}"], {{}}]',
            Printed(aggregate_of_sdk(updated=False, name="s-a", metadata={"availability_zone": "az-s"})),
        ),
        rows("name, metadata FROM aggregates", r'^s-a\|\{"availability_zone":"az-s"\}$'),
        (
            'sdk update_aggregate [["{aggregates[s-a]}"], {{"name": "s-b"}}]',
            Printed(aggregate_of_sdk(name="s-b", metadata={"availability_zone": "az-s"})),
        ),
        rows("name FROM aggregates", "^s-b$"),
        (
            'sdk add_host_to_aggregate [["{aggregates[s-b]}", "root-general-1"], {{}}]',
            Printed(aggregate_of_sdk(hosts=True, name="s-b", metadata={"availability_zone": "az-s"})),
        ),
        rows("h.name FROM aggregate_hosts a JOIN hosts h ON h.id = a.host_id", "^root-general-1$"),
        (
            'sdk set_aggregate_metadata [["{aggregates[s-b]}", {{"k": "v"}}], {{}}]',
            Printed(
                aggregate_of_sdk(hosts=True, name="s-b", metadata={"availability_zone": "az-s", "k": "v"})
            ),
        ),
        rows("metadata FROM aggregates", r'^\{"availability_zone":"az-s","k":"v"\}$'),
        (
            'sdk remove_host_from_aggregate [["{aggregates[s-b]}", "root-general-1"], {{}}]',
            Printed(aggregate_of_sdk(name="s-b", metadata={"availability_zone": "az-s", "k": "v"})),
        ),
        rows("host_id FROM aggregate_hosts", NOTHING),
        ('sdk delete_aggregate [["{aggregates[s-b]}"], {{}}]', Printed(None)),
        rows("name FROM aggregates", NOTHING),
    ),
    "aggregates, with the older client": (
        ("nova aggregate-create n-a n-az", r"\| n-a +\| n-az +\| +\| 'availability_zone=n-az' "),
        rows("name, metadata FROM aggregates", r'^n-a\|\{"availability_zone":"n-az"\}$'),
        ("nova aggregate-add-host n-a root-general-1", r"\| 'root-general-1' +\| 'availability_zone=n-az' "),
        rows("h.name FROM aggregate_hosts a JOIN hosts h ON h.id = a.host_id", "^root-general-1$"),
        ("nova aggregate-set-metadata n-a a=b", r"\| 'a=b', 'availability_zone=n-az' "),
        rows("metadata FROM aggregates", r'^\{"a":"b","availability_zone":"n-az"\}$'),
        ("nova aggregate-update n-a --name n-b", r"\| n-b +\| n-az "),
        rows("name FROM aggregates", "^n-b$"),
        ("nova aggregate-remove-host n-b root-general-1", r"\| n-b +\| n-az +\| +\| 'a=b'"),
        rows("host_id FROM aggregate_hosts", NOTHING),
        ("nova aggregate-delete n-b", "successfully deleted"),
        rows("name FROM aggregates", NOTHING),
    ),
    "images, with openstacksdk": (
        (
            'sdk set_image_metadata [["{images[spare]}"], {{"k": "v"}}]',
            Printed({"id": UUID, "metadata": {"k": "v"}}),
        ),
        rows("properties FROM images WHERE name = 'spare'", r'^\{"k":"v","os":"linux"\}$'),
        (
            'sdk fetch_image_metadata [["{images[spare]}"], {{}}]',
            Printed({"id": UUID, "metadata": {"os": "linux", "k": "v"}}),
        ),
        rows("properties FROM images WHERE name = 'spare'", r'^\{"k":"v","os":"linux"\}$'),
        ('sdk delete_image_metadata [["{images[spare]}", ["k"]], {{}}]', Printed(None)),
        rows("properties FROM images WHERE name = 'spare'", r'^\{"os":"linux"\}$'),
        ('sdk delete_image [["{images[spare]}"], {{"ignore_missing": false}}]', Printed(None)),
        rows("id FROM images WHERE name = 'spare'", NOTHING),
    ),
    "key pairs, with each client": (
        (
            f'sdk create_keypair [[], {{{{"name": "s-k", "public_key": "{KEY}"}}}}]',
            Printed(
                {
                    "fingerprint": FINGERPRINT,
                    "id": "s-k",
                    "name": "s-k",
                    "public_key": KEY,
                    "type": "ssh",
                    "user_id": UUID,
                }
            ),
        ),
        rows("name, public_key FROM keypairs", rf"^s-k\|{re.escape(KEY)}$"),
        (
            "sdk keypairs [[], {{}}]",
            Printed(
                [{"fingerprint": FINGERPRINT, "id": "s-k", "name": "s-k", "public_key": KEY, "type": "ssh"}]
            ),
        ),
        rows("name FROM keypairs", "^s-k$"),
        ('sdk delete_keypair [["s-k"], {{}}]', Printed(None)),
        rows("name FROM keypairs", NOTHING),
        ("openstack@2.91 keypair create o-k", "BEGIN OPENSSH PRIVATE KEY"),
        rows("name, substr(public_key, 1, 11) FROM keypairs", r"^o-k\|ssh-ed25519$"),
        ("openstack keypair delete o-k", NOTHING),
        rows("name FROM keypairs", NOTHING),
        ("nova@2.91 keypair-add n-k", "BEGIN OPENSSH PRIVATE KEY"),
        rows("name, substr(public_key, 1, 11) FROM keypairs", r"^n-k\|ssh-ed25519$"),
        ("nova keypair-delete n-k", NOTHING),
        rows("name FROM keypairs", NOTHING),
    ),
    "server groups, with each client": (
        (
            'sdk create_server_group [[], {{"name": "s-g", "policy": "anti-affinity"}}]',
            Printed(
                {
                    **group("anti-affinity", "s-g"),
                    "policies": ["anti-affinity"],
                    "rules": {"max_server_per_host": 1},
                }
            ),
        ),
        rows(
            "name, policy, max_server_per_host, project_id FROM server_groups",
            r"^s-g\|anti-affinity\|1\|admin$",
        ),
        ('sdk delete_server_group [["{groups[s-g]}"], {{}}]', Printed(None)),
        rows("name FROM server_groups", NOTHING),
        (
            "openstack server group create --policy affinity o-g",
            Printed({**group("affinity", "o-g"), "members": [], "rules": {}}),
        ),
        rows("name, policy FROM server_groups", r"^o-g\|affinity$"),
        ("openstack server group delete o-g", NOTHING),
        rows("name FROM server_groups", NOTHING),
        (
            "nova server-group-create n-g affinity",
            r"\| n-g +\| admin +\| [0-9a-f-]+ +\| affinity +\| \{\} +\| \[\] ",
        ),
        rows("name, policy FROM server_groups", r"^n-g\|affinity$"),
        ("nova server-group-delete {groups[n-g]}", "successfully deleted"),
        rows("name FROM server_groups", NOTHING),
    ),
    "services, with each client": (
        (
            'sdk disable_service [["{hosts[root-gpu-4]}"], {{"disabled_reason": "r"}}]',
            Printed(service_of_sdk(status="disabled", disabled_reason="r")),
        ),
        rows(HOST, r"^0\|r\|0$"),
        ('sdk enable_service [["{hosts[root-gpu-4]}"], {{}}]', Printed(service_of_sdk())),
        rows(HOST, r"^1\|\|0$"),
        (
            'sdk update_service_forced_down [["{hosts[root-gpu-4]}"], {{"forced": true}}]',
            Printed(service_of_sdk(is_forced_down=True, state="down")),
        ),
        rows(HOST, r"^1\|\|1$"),
        (
            'sdk force_service_down [["{hosts[root-gpu-4]}"], {{"forced": false}}]',
            Printed(service_of_sdk()),
        ),
        rows(HOST, r"^1\|\|0$"),
        (
            'sdk update_service [["{hosts[root-gpu-4]}"], {{"status": "disabled"}}]',
            Printed(service_of_sdk(status="disabled")),
        ),
        rows(HOST, r"^0\|\|0$"),
        ("openstack compute service set --enable root-gpu-4 nova-compute", NOTHING),
        rows(HOST, r"^1\|\|0$"),
        (
            "nova service-disable {hosts[root-gpu-4]} --reason r",
            r"\| root-gpu-4 \| nova-compute \| disabled \| r ",
        ),
        rows(HOST, r"^0\|r\|0$"),
        ("nova service-enable {hosts[root-gpu-4]}", r"\| root-gpu-4 \| nova-compute \| enabled "),
        rows(HOST, r"^1\|\|0$"),
        ("nova service-force-down {hosts[root-gpu-4]}", r"\| root-gpu-4 \| nova-compute \| True "),
        rows(HOST, r"^1\|\|1$"),
        ("nova service-force-down --unset {hosts[root-gpu-4]}", r"\| root-gpu-4 \| nova-compute \| False "),
        rows(HOST, r"^1\|\|0$"),
        ("openstack@2.1 host set --disable root-gpu-4", NOTHING),
        rows(HOST, r"^0\|\|0$"),
        ("openstack@2.1 host set --enable root-gpu-4", NOTHING),
        rows(HOST, r"^1\|\|0$"),
    ),
    "quotas, with each client": (
        (
            'sdk update_quota_set [["admin"], {{"instances": 500}}]',
            Printed({**LIMITS_OF_SDK, "instances": 500}),
        ),
        rows(QUOTAS, r"^project_instances\|500$"),
        ('sdk revert_quota_set [["admin"], {{}}]', Printed(None)),
        rows(QUOTAS, NOTHING),
        ("openstack quota set --instances 77 admin", NOTHING),
        rows(QUOTAS, r"^project_instances\|77$"),
        (
            "openstack quota list --compute",
            Printed(
                [
                    {
                        "Project ID": "admin",
                        "Instances": 77,
                        **dict.fromkeys(("Cores", "Ram", "Server Group Members"), -1),
                        "Server Groups": 1000,
                        "Key Pairs": 100,
                        "Metadata Items": 128,
                        **dict.fromkeys(
                            ("Injected Files", "Injected File Content Bytes", "Injected File Path Bytes")
                        ),
                    }
                ]
            ),
        ),
        rows(QUOTAS, r"^project_instances\|77$"),
        ("openstack quota delete --compute admin", NOTHING),
        rows(QUOTAS, NOTHING),
        ("nova quota-update admin --instances 600", NOTHING),
        rows(QUOTAS, r"^project_instances\|600$"),
        ("nova quota-delete --tenant admin", NOTHING),
        rows(QUOTAS, NOTHING),
    ),
}
