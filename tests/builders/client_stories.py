"""Command lines of OpenStack's clients with what they print, as stories that each begin and end alone.

`A line of a shell` -> a regular expression that is found in what it prints. Where it is `Refused`, the line
ends with another exit code than 0, and the expression is found in its errors; where it is `Printed`, it is
the form of all fields. `sdk METHOD ARGUMENTS` calls a method of openstacksdk with arguments in JSON, and
`ROWS A STATEMENT` reads rows of the root, a line each, with `|` between the columns. `{flavors[NAME]}` and
the like are ids, by name.
"""

from __future__ import annotations

from tests.builders.client_change_stories import CATALOG_CHANGES
from tests.builders.client_server_stories import SERVER_CHANGES
from tests.builders.client_story_lines import BELOW, CREATE, NOTHING, Line, Refused, rows

STORIES: dict[str, tuple[Line, ...]] = {
    "several servers at once": (
        (f"{CREATE} --min 3 --max 3 many", "^ACTIVE$"),
        # The client waits for the first of them alone.
        *((f"WAIT many-{number} ACTIVE", "") for number in (1, 2, 3)),
        (
            "openstack server list --status ACTIVE --sort-column Name -f value -c Name",
            r"^many-1\nmany-2\nmany-3$",
        ),
        ("openstack server list --limit 1 -f value -c Name", r"\Amany-.\Z"),
        ("openstack server delete --wait many-1 many-2 many-3", NOTHING),
        ("openstack server list -f value -c Name", NOTHING),
    ),
    "server groups": (
        ("openstack server group create --policy anti-affinity -f value -c policy apart", "^anti-affinity$"),
        ("openstack server group list -f value -c Name -c Policy", "^apart anti-affinity$"),
        (f"{CREATE} --server-group apart in-it", "^ACTIVE$"),
        ("openstack server group show apart -f value -c members", r"^\['[0-9a-f-]{36}'\]$"),
        ("openstack server delete --wait in-it", NOTHING),
        ("openstack server group delete apart", NOTHING),
        ("openstack server group show apart", Refused("No ServerGroup found for apart")),
    ),
    "key pairs": (
        ("openstack --os-compute-api-version 2.91 keypair create made", "BEGIN OPENSSH PRIVATE KEY"),
        ("openstack keypair list -f value -c Name -c Type", "^made ssh$"),
        ("openstack keypair show made -f value -c name -c type", r"^made\nssh$"),
        (f"{CREATE} --key-name made keyed", "^ACTIVE$"),
        ("openstack server show keyed -f value -c key_name", "^made$"),
        ("openstack server delete --wait keyed", NOTHING),
        ("openstack keypair delete made", NOTHING),
        ("openstack keypair show made", Refused("No Keypair found for made")),
    ),
    "aggregates": (
        ("openstack aggregate create --zone far -f value -c availability_zone rack", "^far$"),
        rows("name, metadata FROM aggregates", r'^rack\|\{"availability_zone":"far"\}$'),
        ("openstack aggregate add host rack root-general-1 -f value -c hosts", "root-general-1"),
        rows("h.name FROM aggregate_hosts a JOIN hosts h ON h.id = a.host_id", "^root-general-1$"),
        ("openstack aggregate set --property ssd=true --name racks rack", NOTHING),
        rows("name, metadata FROM aggregates", r'^racks\|\{"availability_zone":"far","ssd":"true"\}$'),
        ("openstack aggregate show racks -f value -c properties", "ssd.*true"),
        ("openstack aggregate unset --property ssd racks", NOTHING),
        rows("name, metadata FROM aggregates", r'^racks\|\{"availability_zone":"far"\}$'),
        ("openstack aggregate list --long -f value -c Name -c Properties", r"^racks \{\}$"),
        ("openstack aggregate delete racks", Refused("The aggregate has hosts")),
        ("openstack aggregate remove host racks root-general-1 -f value -c name", "^racks$"),
        rows("host_id FROM aggregate_hosts", NOTHING),
        ("openstack aggregate delete racks", NOTHING),
        rows("name FROM aggregates", NOTHING),
        ("openstack aggregate list", NOTHING),
    ),
    "flavors": (
        (
            "openstack flavor create --vcpus 2 --ram 128 --disk 2 --ephemeral 1 --swap 512 --private"
            " --property hw:x=1 --description 'for tests' -f value -c ram -c swap medium",
            r"^128\n512$",
        ),
        rows(
            "vcpus, ram_mb, disk_gb, ephemeral_gb, swap_mb, is_public, description, extra_specs FROM flavors"
            " WHERE name = 'medium'",
            r'^2\|128\|2\|1\|512\|0\|for tests\|\{"hw:x":"1"\}$',
        ),
        ("openstack flavor list -f value -c Name", "^small$"),
        ("openstack flavor list --all -f value -c Name", r"^medium\nsmall$|^small\nmedium$"),
        ("openstack flavor set --property hw:y=2 --description changed medium", NOTHING),
        rows(
            "description, extra_specs FROM flavors WHERE name = 'medium'",
            r'^changed\|\{"hw:x":"1","hw:y":"2"\}$',
        ),
        ("openstack flavor unset --property hw:x medium", NOTHING),
        rows("extra_specs FROM flavors WHERE name = 'medium'", r'^\{"hw:y":"2"\}$'),
        ("openstack flavor show medium -f value -c properties -c description", r"^changed\n.*hw:y.*2"),
        ("openstack flavor delete medium", NOTHING),
        rows("id FROM flavors WHERE name = 'medium'", NOTHING),
        ("openstack flavor show medium", Refused("No Flavor found for medium")),
    ),
    "images": (
        ("openstack image list -f value -c Name -c Status", "^plain active$"),
        ("openstack image list --name plain -f value -c Name", "^plain$"),
        ("openstack image list --name other -f value -c Name", NOTHING),
        ("openstack image show plain -f value -c status -c min_ram", r"^0\nactive$"),
        ("openstack image show other", Refused("No Image found for other")),
    ),
    "hosts": (
        ("openstack availability zone list --compute -f value", "leaf-rack-1 available"),
        ("openstack availability zone list --compute --long -f value", "root-general-1 nova-compute enabled"),
        ("openstack hypervisor list -f value -c 'Hypervisor Hostname' -c State", "^root-general-1 up$"),
        ("openstack --os-compute-api-version 2.87 hypervisor stats show -f value -c count", "^4$"),
        ("openstack hypervisor show root-general-1 -f value -c hypervisor_hostname", "^root-general-1$"),
        # The version that the client asks for where its user names none.
        ("openstack --os-compute-api-version 2.1 hypervisor show root-general-1 -f value -c state", "^up$"),
        ("openstack hypervisor list --matching gpu -f value -c 'Hypervisor Hostname'", r"\Aroot-gpu-4\Z"),
        ("openstack --os-compute-api-version 2.1 host show root-general-1 -f value -c Project", "(total)"),
        ("nova hypervisor-servers root-general-1", "Hypervisor Hostname"),
        ("openstack compute service set --disable --disable-reason broken root-gpu-4 nova-compute", NOTHING),
        (
            "openstack compute service list --long --host root-gpu-4 -f value -c Status -c 'Disabled Reason'",
            "^disabled broken$",
        ),
        ("openstack compute service set --enable root-gpu-4 nova-compute", NOTHING),
    ),
    "quotas and usage": (
        ("openstack project list -f value -c Name", "^admin$"),
        ("openstack project show admin -f value -c id", "^admin$"),
        ("openstack quota set --instances 77 admin", NOTHING),
        ("openstack quota show --compute admin -f value -c Resource -c Limit", "^instances 77$"),
        ("openstack quota list --compute -f value -c Instances", "^77$"),
        (f"{CREATE} counted", "^ACTIVE$"),
        ("openstack server list --user admin -f value -c Name", "^counted$"),
        ("openstack quota show --compute --usage admin -f value", "^cores -1 1 0$"),
        ("openstack limits show --absolute -f value", "^instances_used 1$"),
        ("openstack limits show --rate -f value", "^POST /servers "),
        ("nova limits", r"\| Instances +\| 1 +\| 77 "),
        ("nova quota-show --tenant admin --detail", "in_use.: 1|in_use"),
        ("openstack usage list -f value -c Project -c Servers", r"^admin \["),
        ("openstack usage show --project admin -f value -c Project", "^admin$"),
        ("nova usage --tenant admin", r"CPU Hours"),
        ("nova usage-list", r"\| admin "),
        ("openstack quota delete --compute admin", NOTHING),
        ("openstack quota show --compute admin -f value -c Resource -c Limit", "^instances 1000000$"),
        ("openstack server delete --wait counted", NOTHING),
    ),
    "the inside of a server": (
        (f"{CREATE} {BELOW} looked-into", "^ACTIVE$"),
        ("nova diagnostics looked-into", r"\| state +\| running "),
        ("nova server-topology looked-into", "nodes"),
        ("nova get-password looked-into", NOTHING),
        ("nova clear-password looked-into", NOTHING),
        ("nova get-vnc-console looked-into novnc", Refused("a zone has no graphical and no serial consoles")),
        ("openstack server migration list --server looked-into", NOTHING),
        ("nova migration-list", "Source Compute"),
        ("nova --os-compute-api-version 2.71 refresh-network looked-into", NOTHING),
        ("openstack server add network looked-into some", Refused("'network' is disabled")),
        ("openstack limits show --absolute -f value -c Name", "^instances$"),
        ("openstack server add share looked-into some", Refused("'shared-file-system' is disabled")),
        ("openstack server share show looked-into some", Refused("'shared-file-system' is disabled")),
        ("openstack server delete --wait looked-into", NOTHING),
    ),
    "disks of a server": (
        ("nova boot --flavor small --nic none --poll disk"
         " --block-device id={image},source=image,dest=local,bootindex=0", "Finished"),
        ("nova boot --flavor small --nic none --image plain disks"
         " --block-device source=blank,dest=volume,size=1", Refused("block_device_mapping_v2")),
        ("nova delete disk", "has been accepted"),
    ),
    **SERVER_CHANGES,
    **CATALOG_CHANGES,
}  # fmt: skip
