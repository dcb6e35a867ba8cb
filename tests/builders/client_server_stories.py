"""Stories of servers: after each change, what the root's rows say about the server."""

from __future__ import annotations

import re

from tests.builders.client_story_lines import (
    AT_ROOT,
    BELOW,
    CREATE,
    NOTHING,
    Line,
    Printed,
    Refused,
    rows,
    server,
)
from tests.builders.forms import UUID, ZONELESS


def power(name: str, observed: str) -> Line:
    """A built server of which its agent has reported this."""
    return server("i.status, s.observed_power", name, rf"^ACTIVE\|{observed}$")


def moved(name: str, kind: str, state: str) -> Line:
    """The last move of a server."""
    return rows(
        f"kind, state FROM moves WHERE uuid = '{{servers[{name}]}}' ORDER BY created_at DESC LIMIT 1",
        rf"^{kind}\|{state}$",
    )


def resized(name: str, begun: int, confirmed: int, reverted: int) -> Line:
    columns = "s.observed_resizes_begun, s.observed_resizes_confirmed, s.observed_resizes_reverted"
    return server(columns, name, rf"^{begun}\|{confirmed}\|{reverted}$")


def sdk(name: str, method: str, *args: str, wait: str = "") -> tuple[Line, ...]:
    """Call a method of openstacksdk that answers nothing, and wait for a status of the server."""
    words = ", ".join(f'"{word}"' for word in (f"{{servers[{name}]}}", *args))
    waits: tuple[Line, ...] = ((f"WAIT {name} {wait}", ""),) if wait else ()
    return ((f"sdk {method} [[{words}], {{{{}}}}]", "^null$"), *waits)


OF_SDK = (
    'sdk create_server [[], {{"name": "sdk", "flavor_id": "{flavors[small]}", "image_id": "{images[plain]}",'
    ' "networks": "none", "availability_zone": "leaf-rack-1", "metadata": {{"a": "b"}}}}]'
)

_ENDS = dict.fromkeys(("source_compute", "source_node", "dest_compute", "dest_node"), re.compile("root-.+"))
_AMOUNTS = tuple(
    f"{what}_{which}_bytes" for what in ("memory", "disk") for which in ("total", "processed", "remaining")
)
MIGRATION_OF_SDK = {
    **_ENDS,
    "id": UUID,
    "uuid": UUID,
    "status": "finished",
    "server_uuid": UUID,
    "user_id": UUID,
    "project_id": "admin",
    "created_at": ZONELESS,
    "updated_at": ZONELESS,
}
MIGRATION_OF_OPENSTACK = {
    "ID": UUID,
    "UUID": UUID,
    "Server UUID": UUID,
    "Status": "finished",
    "Source Compute": str,
    "Source Node": str,
    "Dest Compute": str,
    "Dest Host": None,
    "Dest Node": str,
    **dict.fromkeys(
        f"{what} {which} Bytes"
        for what in ("Memory", "Disk")
        for which in ("Total", "Processed", "Remaining")
    ),
    "Created At": ZONELESS,
    "Updated At": ZONELESS,
    "User ID": UUID,
    "Project ID": "admin",
}
MIGRATION_OF_NOVA = {
    **_ENDS,
    "id": UUID,
    "uuid": UUID,
    "instance_uuid": UUID,
    "server_uuid": UUID,
    "status": "finished",
    "migration_type": "resize",
    "user_id": UUID,
    "project_id": "admin",
    "created_at": ZONELESS,
    "updated_at": ZONELESS,
    **dict.fromkeys(("dest_host", "old_instance_type_id", "new_instance_type_id", *_AMOUNTS), "-"),
}
LISTED_BY_NOVA = {
    "Id": UUID,
    **dict.fromkeys(("Source Node", "Dest Node", "Source Compute", "Dest Compute"), str),
    "Dest Host": "-",
    "Status": "finished",
    "Server UUID": UUID,
    "Created At": ZONELESS,
    "Updated At": ZONELESS,
    "Project ID": "admin",
    "User ID": UUID,
    **dict.fromkeys(
        (
            f"{which} {what} Bytes"
            for what in ("Memory", "Disk")
            for which in ("Total", "Processed", "Remaining")
        ),
        "None",
    ),
}
LISTED_BY_OPENSTACK = {
    "Id": UUID,
    "UUID": UUID,
    **dict.fromkeys(("Source Node", "Dest Node", "Source Compute", "Dest Compute"), str),
    "Dest Host": None,
    "Status": "finished",
    "Server UUID": UUID,
    "Old Flavor": None,
    "New Flavor": None,
    "Type": "resize",
    "Created At": ZONELESS,
    "Updated At": ZONELESS,
}

SERVER_CHANGES: dict[str, tuple[Line, ...]] = {
    "a server in the lowest zone, with openstacksdk": (
        ("openstack flavor create --vcpus 2 --ram 128 --disk 2 -f value -c name large", "^large$"),
        (
            OF_SDK,
            Printed(
                {
                    "id": UUID,
                    "name": "sdk",
                    "links": list,
                    "admin_password": str,
                    "availability_zone": "leaf-rack-1",
                    "disk_config": "MANUAL",
                    "flavor_id": UUID,
                    "image_id": UUID,
                    "metadata": {"a": "b"},
                    "networks": "none",
                    "security_groups": [{"name": "default"}],
                }
            ),
        ),
        server("i.project_id, i.flavor_id = '{flavors[small]}'", "sdk", r"^admin\|1$"),
        ('sdk wait_for_server [["{servers[sdk]}"], {{}}]', '"status": "ACTIVE"'),
        server("i.status", "sdk", "^ACTIVE$"),
        *sdk("sdk", "stop_server", wait="SHUTOFF"),
        power("sdk", "stopped"),
        *sdk("sdk", "start_server", wait="ACTIVE"),
        power("sdk", "running"),
        *sdk("sdk", "reboot_server", "HARD", wait="ACTIVE"),
        server("s.reboots, s.reboot_type", "sdk", r"^3\|HARD$"),
        *sdk("sdk", "pause_server", wait="PAUSED"),
        power("sdk", "paused"),
        *sdk("sdk", "unpause_server", wait="ACTIVE"),
        power("sdk", "running"),
        *sdk("sdk", "suspend_server", wait="SUSPENDED"),
        power("sdk", "suspended"),
        *sdk("sdk", "resume_server", wait="ACTIVE"),
        power("sdk", "running"),
        *sdk("sdk", "lock_server", "why"),
        server("l.reason, l.by_admin", "sdk", r"^why\|1$"),
        *sdk("sdk", "unlock_server"),
        server("l.reason", "sdk", "^None$"),
        ('sdk rebuild_server [["{servers[sdk]}", "{images[newer]}"], {{}}]', '"task_state": "rebuilding"'),
        ("WAIT sdk ACTIVE", ""),
        server("s.rebuilds, s.observed_rebuilds, s.image LIKE '%newer%'", "sdk", r"^1\|1\|1$"),
        *sdk("sdk", "resize_server", "{flavors[large]}", wait="VERIFY_RESIZE"),
        resized("sdk", 1, 0, 0),
        *sdk("sdk", "revert_server_resize", wait="ACTIVE"),
        resized("sdk", 1, 0, 1),
        *sdk("sdk", "resize_server", "{flavors[large]}", wait="VERIFY_RESIZE"),
        resized("sdk", 2, 0, 1),
        *sdk("sdk", "confirm_server_resize", wait="ACTIVE"),
        resized("sdk", 2, 1, 1),
        *sdk("sdk", "shelve_server", wait="SHELVED_OFFLOADED"),
        server("i.status, s.observed_power", "sdk", r"^OFFLOADED\|offloaded$"),
        *sdk("sdk", "unshelve_server", wait="ACTIVE"),
        power("sdk", "running"),
        (
            'sdk set_server_metadata [["{servers[sdk]}"], {{"c": "d"}}]',
            # openstacksdk returns what it was given.
            Printed({"id": UUID, "metadata": {"c": "d"}}),
        ),
        server("json_extract(i.passthrough, '$.metadata')", "sdk", r'^\{"a":"b","c":"d"\}$'),
        (
            'sdk fetch_server_metadata [["{servers[sdk]}"], {{}}]',
            Printed({"id": UUID, "metadata": {"a": "b", "c": "d"}}),
        ),
        server("json_extract(i.passthrough, '$.metadata')", "sdk", r'^\{"a":"b","c":"d"\}$'),
        ('sdk delete_server_metadata [["{servers[sdk]}", ["a"]], {{}}]', "^null$"),
        server("json_extract(i.passthrough, '$.metadata')", "sdk", r'^\{"c":"d"\}$'),
        *sdk("sdk", "add_tag_to_server", "t"),
        server("json_extract(i.passthrough, '$.tags')", "sdk", r'^\["t"\]$'),
        *sdk("sdk", "remove_tag_from_server", "t"),
        server("json_extract(i.passthrough, '$.tags')", "sdk", r"^\[\]$"),
        *sdk("sdk", "remove_tags_from_server"),
        server("json_extract(i.passthrough, '$.tags')", "sdk", r"^\[\]$"),
        (
            'sdk update_server [["{servers[sdk]}"], {{"description": "d", "access_ipv4": "1.2.3.4"}}]',
            '"access_ipv4": "1.2.3.4"',
        ),
        server(
            "json_extract(i.passthrough, '$.description'), json_extract(i.passthrough, '$.access_ipv4')",
            "sdk",
            r"^d\|1\.2\.3\.4$",
        ),
        *sdk("sdk", "clear_server_password"),
        server("json_extract(i.passthrough, '$.admin_pass')", "sdk", "^None$"),
        (
            'sdk create_server_external_events [[[{{"name": "network-changed",'
            ' "server_uuid": "{servers[sdk]}"}}]], {{}}]',
            Printed([{"name": "network-changed", "server_uuid": UUID, "status": "completed", "code": 200}]),
        ),
        power("sdk", "running"),
        *sdk("sdk", "delete_server"),
        rows("status FROM instances WHERE name = 'sdk'", "^DELETED$"),
        ("openstack flavor delete large", NOTHING),
    ),
    "power of a server in the lowest zone": (
        (f"{CREATE} {BELOW} low", "^ACTIVE$"),
        server("i.status", "low", "^ACTIVE$"),
        ("openstack server show low -f value -c OS-EXT-AZ:availability_zone", "^leaf-rack-1$"),
        ("openstack server stop low", NOTHING),
        ("WAIT low SHUTOFF", ""),
        power("low", "stopped"),
        ("openstack server start low", NOTHING),
        ("WAIT low ACTIVE", ""),
        power("low", "running"),
        ("openstack server reboot --wait low", "Complete"),
        server("s.reboots, s.reboot_type", "low", r"^3\|SOFT$"),
        ("openstack server reboot --hard --wait low", "Complete"),
        server("s.reboots, s.reboot_type", "low", r"^4\|HARD$"),
        ("openstack server pause low", NOTHING),
        ("WAIT low PAUSED", ""),
        power("low", "paused"),
        ("openstack server unpause low", NOTHING),
        ("WAIT low ACTIVE", ""),
        power("low", "running"),
        ("openstack server suspend low", NOTHING),
        ("WAIT low SUSPENDED", ""),
        power("low", "suspended"),
        ("openstack server resume low", NOTHING),
        ("WAIT low ACTIVE", ""),
        power("low", "running"),
        ("openstack server lock --reason 'in use' low", NOTHING),
        server("l.reason", "low", "^in use$"),
        ("openstack server show low -f value -c locked -c locked_reason", r"^True\nin use$"),
        ("openstack server unlock low", NOTHING),
        server("l.reason", "low", "^None$"),
        ("openstack server event list low -f value -c Action", r"^unlock\nlock\nresume\nsuspend\n"),
        ("openstack server delete --wait low", NOTHING),
        rows("status FROM instances WHERE name = 'low'", "^DELETED$"),
        ("openstack server show low", Refused("No Server found for low")),
    ),
    "details of a server": (
        (f"{CREATE} --property a=b --tag first --description words one", "^ACTIVE$"),
        ("openstack server set --name other --property c=d --tag second one", NOTHING),
        server(
            "json_extract(i.passthrough, '$.metadata'), json_extract(i.passthrough, '$.tags')",
            "other",
            r'^\{"a":"b","c":"d"\}\|\["first","second"\]$',
        ),
        (
            "openstack server show other -f json -c name -c properties -c tags -c description",
            r'"description": "words",\s+"name": "other",\s+"properties": \{\s+"a": "b",\s+"c": "d"\s+\},'
            r'\s+"tags": \[\s+"first",\s+"second"',
        ),
        ("openstack server unset --property a --tag first --description other", NOTHING),
        server(
            "json_extract(i.passthrough, '$.metadata'), json_extract(i.passthrough, '$.tags')",
            "other",
            r'^\{"c":"d"\}\|\["second"\]$',
        ),
        ("openstack server show other -f value -c description -c tags", r"^\['second'\]$"),
        ("openstack server volume list other", NOTHING),
        ("openstack server delete --wait other", NOTHING),
    ),
    "a server rebuilt in the lowest zone": (
        (f"{CREATE} {BELOW} again", "^ACTIVE$"),
        (
            "openstack server rebuild --image newer --name anew --description fresh"
            " --property a=b --wait again",
            "Complete",
        ),
        server("s.rebuilds, s.observed_rebuilds, s.image LIKE '%newer%'", "anew", r"^1\|1\|1$"),
        (
            "openstack server show anew -f value -c status -c image -c description -c properties",
            r"^fresh\nnewer \([0-9a-f-]{36}\)\n\{'a': 'b'\}\nACTIVE$",
        ),
        ("openstack server rebuild --wait anew", "Complete"),
        server("s.rebuilds, s.observed_rebuilds", "anew", r"^2\|2$"),
        ("openstack server show anew -f value -c image", r"^newer \("),
        ("nova rebuild --poll anew plain", "Finished"),
        server("s.rebuilds, s.observed_rebuilds, s.image LIKE '%plain%'", "anew", r"^3\|3\|1$"),
        ("nova show anew", r"\| image +\| plain \("),
        ("openstack server stop anew", NOTHING),
        ("WAIT anew SHUTOFF", ""),
        ("openstack server rebuild --image newer --wait anew", "Complete"),
        ("openstack server show anew -f value -c status", "^SHUTOFF$"),
        ("openstack server rebuild --image none anew", Refused("No Image found for none")),
        ("openstack server rebuild --image newer --password secret anew", Refused("adminPass")),
        ("openstack server delete --wait anew", NOTHING),
    ),
    "a server resized in the lowest zone": (
        (f"{CREATE} {BELOW} grown", "^ACTIVE$"),
        ("openstack flavor create --vcpus 2 --ram 128 --disk 2 -f value -c name larger", "^larger$"),
        ("openstack server resize --flavor larger --wait grown", "Complete"),
        resized("grown", 1, 0, 0),
        ("openstack server show grown -f value -c status", "^VERIFY_RESIZE$"),
        ("openstack server stop grown", Refused("the server's status is VERIFY_RESIZE")),
        ("openstack server resize revert grown", NOTHING),
        ("WAIT grown ACTIVE", ""),
        resized("grown", 1, 0, 1),
        ("nova resize --poll grown larger", "Finished"),
        resized("grown", 2, 0, 1),
        ("nova show grown", r"\| status +\| VERIFY_RESIZE "),
        ("nova resize-confirm grown", NOTHING),
        ("WAIT grown ACTIVE", ""),
        resized("grown", 2, 1, 1),
        ("nova show grown", r"\| flavor:original_name +\| larger "),
        ("openstack server resize --flavor larger grown", Refused("the server has this flavor")),
        ("openstack server resize confirm grown", Refused("accepted: VERIFY_RESIZE")),
        (
            "openstack server event list grown -f value -c Action",
            r"^confirmResize\nresize\nrevertResize\nresize\ncreate$",
        ),
        ("openstack server delete --wait grown", NOTHING),
        ("openstack flavor delete larger", NOTHING),
    ),
    "a server shelved in the lowest zone": (
        (f"{CREATE} {BELOW} put-away", "^ACTIVE$"),
        ("nova unshelve put-away", Refused("accepted: SHELVED_OFFLOADED")),
        ("openstack server shelve --wait put-away", ""),
        server("i.status, s.observed_power", "put-away", r"^OFFLOADED\|offloaded$"),
        ("openstack server show put-away -f value -c status -c OS-EXT-SRV-ATTR:host", "^SHELVED_OFFLOADED$"),
        ("openstack server start put-away", Refused("the server's status is SHELVED_OFFLOADED")),
        ("openstack server unshelve --wait put-away", ""),
        power("put-away", "running"),
        ("openstack server show put-away -f value -c status", "^ACTIVE$"),
        ("nova shelve put-away", NOTHING),
        ("WAIT put-away SHELVED_OFFLOADED", ""),
        server("i.status, s.observed_power", "put-away", r"^OFFLOADED\|offloaded$"),
        ("nova unshelve put-away", NOTHING),
        ("WAIT put-away ACTIVE", ""),
        power("put-away", "running"),
        (
            "openstack server event list put-away -f value -c Action",
            r"^unshelve\nshelve\nunshelve\nshelve\ncreate$",
        ),
        ("openstack server delete --wait put-away", NOTHING),
    ),
    "a server moved by the admin of its zone": (
        (f"{CREATE} {AT_ROOT} mover", "^ACTIVE$"),
        ("openstack server migrate --wait mover", "Complete"),
        moved("mover", "migration", "done"),
        ("openstack server show mover -f value -c status", "^ACTIVE$"),
        ("nova migrate --poll mover", "Finished"),
        ("WAIT mover ACTIVE", ""),
        moved("mover", "migration", "done"),
        *sdk("mover", "migrate_server", wait="ACTIVE"),
        rows("count(*) FROM moves WHERE uuid = '{servers[mover]}' AND kind = 'migration'", "^3$"),
        ("openstack server event list mover -f value -c Action", r"^migrate\nmigrate\nmigrate\ncreate$"),
        ("openstack server migrate confirm mover", Refused("confirmResize")),
        (f"{CREATE} {BELOW} stayer", "^ACTIVE$"),
        ("openstack server migrate stayer", Refused("an admin of the zone that has its host moves it there")),
        ("nova migrate stayer", Refused("an admin of the zone that has its host moves it there")),
        ("openstack server delete --wait mover stayer", NOTHING),
    ),
    "servers resized in the root": (
        (f"{CREATE} {AT_ROOT} --min 6 --max 6 sized", "^ACTIVE$"),
        *((f"WAIT sized-{number} ACTIVE", "") for number in range(1, 7)),
        ("openstack flavor create --vcpus 2 --ram 128 --disk 2 -f value -c name bigger", "^bigger$"),
        *((f"openstack server resize --flavor bigger sized-{number}", NOTHING) for number in range(1, 6)),
        ("nova resize sized-6 bigger", NOTHING),
        *((f"WAIT sized-{number} VERIFY_RESIZE", "") for number in range(1, 7)),
        moved("sized-6", "resize", "verifying"),
        ('sdk server_migrations [["{servers[sized-1]}"], {{}}]', Printed([MIGRATION_OF_SDK])),
        (
            'sdk get_server_migration [["{moves[sized-1]}", "{servers[sized-1]}"], {{}}]',
            Printed(MIGRATION_OF_SDK),
        ),
        ("openstack server migration show sized-1 {moves[sized-1]}", Printed(MIGRATION_OF_OPENSTACK)),
        ("nova server-migration-show sized-1 {moves[sized-1]}", Printed(MIGRATION_OF_NOVA)),
        ("nova server-migration-list sized-1", Printed([LISTED_BY_NOVA])),
        ("openstack server migration list --server sized-1 --type resize", Printed([LISTED_BY_OPENSTACK])),
        ("openstack server migration list --server sized-1 --type live-migration", Printed([])),
        ("openstack server event list --limit 1 sized-1 -f value -c Action", "^resize$"),
        rows(
            "m.id = '{moves[sized-1]}', i.status FROM moves m JOIN instances i USING (uuid)"
            " WHERE i.uuid = '{servers[sized-1]}'",
            r"^1\|ACTIVE$",
        ),
        ("openstack server resize confirm sized-1", NOTHING),
        ("WAIT sized-1 ACTIVE", ""),
        moved("sized-1", "resize", "done"),
        ("openstack server migrate confirm sized-2", NOTHING),
        ("WAIT sized-2 ACTIVE", ""),
        moved("sized-2", "resize", "done"),
        ("openstack server migration confirm sized-3", NOTHING),
        ("WAIT sized-3 ACTIVE", ""),
        moved("sized-3", "resize", "done"),
        ("openstack server migrate revert sized-4", NOTHING),
        ("WAIT sized-4 ACTIVE", ""),
        moved("sized-4", "resize", "reverted"),
        ("openstack server migration revert sized-5", NOTHING),
        ("WAIT sized-5 ACTIVE", ""),
        moved("sized-5", "resize", "reverted"),
        ("nova resize-revert sized-6", NOTHING),
        ("WAIT sized-6 ACTIVE", ""),
        moved("sized-6", "resize", "reverted"),
        ("openstack server delete --wait sized-1 sized-2 sized-3 sized-4 sized-5 sized-6", NOTHING),
        ("openstack flavor delete bigger", NOTHING),
    ),
    "metadata of all servers on a host": (
        (f"{CREATE} {AT_ROOT}:root-storage-3 stored", "^ACTIVE$"),
        server("p.host_id = '{hosts[root-storage-3]}'", "stored", "^1$"),
        ("nova host-meta root-storage-3 set a=b", NOTHING),
        server("json_extract(i.passthrough, '$.metadata')", "stored", r'^\{"a":"b"\}$'),
        ("openstack server delete --wait stored", NOTHING),
    ),
    "the older client": (
        (
            "nova boot --flavor small --nic none --image plain"
            " --availability-zone leaf-rack-1 --meta a=b --poll old",
            "Finished",
        ),
        server("i.status, json_extract(i.passthrough, '$.metadata')", "old", r'^ACTIVE\|\{"a":"b"\}$'),
        ("nova list", r"\| old +\| ACTIVE "),
        ("nova show old", r"\| status +\| ACTIVE "),
        ("nova stop old", "Request to stop server old has been accepted"),
        ("WAIT old SHUTOFF", ""),
        power("old", "stopped"),
        ("nova start old", "Request to start server old has been accepted"),
        ("WAIT old ACTIVE", ""),
        power("old", "running"),
        ("nova reboot --poll old", "Finished"),
        server("s.reboots, s.reboot_type", "old", r"^3\|SOFT$"),
        ("nova pause old", NOTHING),
        ("WAIT old PAUSED", ""),
        power("old", "paused"),
        ("nova unpause old", NOTHING),
        ("WAIT old ACTIVE", ""),
        power("old", "running"),
        ("nova suspend old", NOTHING),
        ("WAIT old SUSPENDED", ""),
        power("old", "suspended"),
        ("nova resume old", NOTHING),
        ("WAIT old ACTIVE", ""),
        power("old", "running"),
        ("nova meta old set c=d", NOTHING),
        server("json_extract(i.passthrough, '$.metadata')", "old", r'^\{"a":"b","c":"d"\}$'),
        ("nova server-tag-add old first", "has been accepted"),
        server("json_extract(i.passthrough, '$.tags')", "old", r'^\["first"\]$'),
        ("nova server-tag-list old", r"\| first +\|"),
        ("nova server-tag-set old x y", NOTHING),
        server("json_extract(i.passthrough, '$.tags')", "old", r'^\["x","y"\]$'),
        ("nova server-tag-delete old x", "has been accepted"),
        server("json_extract(i.passthrough, '$.tags')", "old", r'^\["y"\]$'),
        ("nova server-tag-delete-all old", NOTHING),
        server("json_extract(i.passthrough, '$.tags')", "old", r"^\[\]$"),
        ("nova instance-action-list old", r"\| unpause +\|"),
        ("nova lock old", NOTHING),
        server("l.by_admin", "old", "^1$"),
        ("nova unlock old", NOTHING),
        server("l.by_admin", "old", "^None$"),
        ("nova get-password old", NOTHING),
        server("json_extract(i.passthrough, '$.admin_pass')", "old", "^None$"),
        ("nova clear-password old", NOTHING),
        server("json_extract(i.passthrough, '$.admin_pass')", "old", "^None$"),
        ("nova console-log old", "^power running$"),
        power("old", "running"),
        ("openstack console log show old", "^power running$"),
        power("old", "running"),
        ("nova@2.71 refresh-network old", NOTHING),
        power("old", "running"),
        ("nova keypair-list", "Name"),
        ("nova flavor-list", r"\| small +\| 64 "),
        ("nova quota-show --tenant any", r"\| instances +\| [0-9-]+ +\|"),
        ("nova aggregate-list", "Availability Zone"),
        (
            "nova availability-zone-list",
            r"\| root-rack-1 +\| available +\|\n\| \|- root-general-1 +\| +\|\n"
            r"\| \| \|- nova-compute +\| enabled :-\) ",
        ),
        rows("availability_zone, enabled FROM hosts WHERE name = 'root-general-1'", r"^root-rack-1\|1$"),
        ("nova hypervisor-list", r"\| root-general-1 +\| up "),
        ("nova service-list", r"\| nova-compute +\| root-general-1 "),
        ("nova server-group-list", "Policy"),
        ("nova update old --name older", NOTHING),
        server("i.status", "older", "^ACTIVE$"),
        ("nova delete older", "Request to delete server older has been accepted"),
        rows("status FROM instances WHERE name = 'older'", "^DELETED$"),
        ("nova show older", Refused("No server with a name or ID of 'older' exists")),
        ("nova boot --flavor small --nic none --image plain --poll forced", "Finished"),
        ("nova force-delete forced", NOTHING),
        rows("status FROM instances WHERE name = 'forced'", "^DELETED$"),
    ),
}
