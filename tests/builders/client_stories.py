"""Command lines of OpenStack's clients with what they print, as stories that each begin and end alone.

`A line of a shell` -> a regular expression that is found in what it prints. Where it is `Refused`, the line
ends with another exit code than 0, and the expression is found in its errors.
"""

from __future__ import annotations

from dataclasses import dataclass

CREATE = "openstack server create --flavor small --image plain --no-network --wait -f value -c status"
BELOW = "--availability-zone leaf-rack-1"
"""Only hosts of the leaf are in this availability zone."""
AT_ROOT = "--availability-zone root-rack-1"
"""Only hosts of the root are in this availability zone."""


@dataclass(frozen=True)
class Refused:
    """A pattern of an error, on one line."""

    pattern: str


Line = tuple[str, str | Refused]

NOTHING = r"\A\Z"

STORIES: dict[str, tuple[Line, ...]] = {
    "power of a server in the lowest zone": (
        (f"{CREATE} {BELOW} low", "^ACTIVE$"),
        ("openstack server show low -f value -c OS-EXT-AZ:availability_zone", "^leaf-rack-1$"),
        ("openstack server stop low", NOTHING),
        ("WAIT low SHUTOFF", ""),
        ("openstack server start low", NOTHING),
        ("WAIT low ACTIVE", ""),
        ("openstack server reboot --wait low", "Complete"),
        ("openstack server reboot --hard --wait low", "Complete"),
        ("openstack server pause low", NOTHING),
        ("WAIT low PAUSED", ""),
        ("openstack server unpause low", NOTHING),
        ("WAIT low ACTIVE", ""),
        ("openstack server suspend low", NOTHING),
        ("WAIT low SUSPENDED", ""),
        ("openstack server resume low", NOTHING),
        ("WAIT low ACTIVE", ""),
        ("openstack server lock --reason 'in use' low", NOTHING),
        ("openstack server show low -f value -c locked -c locked_reason", r"^True\nin use$"),
        ("openstack server unlock low", NOTHING),
        ("openstack server event list low -f value -c Action", r"^unlock\nlock\nresume\nsuspend\n"),
        ("openstack server delete --wait low", NOTHING),
        ("openstack server show low", Refused("No Server found for low")),
    ),
    "details of a server": (
        (f"{CREATE} --property a=b --tag first --description words one", "^ACTIVE$"),
        ("openstack server set --name other --property c=d --tag second one", NOTHING),
        (
            "openstack server show other -f json -c name -c properties -c tags -c description",
            r'"description": "words",\s+"name": "other",\s+"properties": \{\s+"a": "b",\s+"c": "d"\s+\},'
            r'\s+"tags": \[\s+"first",\s+"second"',
        ),
        ("openstack server unset --property a --tag first --description other", NOTHING),
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
        (
            "openstack server show anew -f value -c status -c image -c description -c properties",
            r"^fresh\nnewer \([0-9a-f-]{36}\)\n\{'a': 'b'\}\nACTIVE$",
        ),
        ("openstack server rebuild --wait anew", "Complete"),
        ("openstack server show anew -f value -c image", r"^newer \("),
        ("nova rebuild --poll anew plain", "Finished"),
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
        ("openstack server show grown -f value -c status", "^VERIFY_RESIZE$"),
        ("openstack server stop grown", Refused("the server's status is VERIFY_RESIZE")),
        ("openstack server resize revert grown", NOTHING),
        ("WAIT grown ACTIVE", ""),
        ("nova resize --poll grown larger", "Finished"),
        ("nova show grown", r"\| status +\| VERIFY_RESIZE "),
        ("nova resize-confirm grown", NOTHING),
        ("WAIT grown ACTIVE", ""),
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
        ("openstack server show put-away -f value -c status -c OS-EXT-SRV-ATTR:host", "^SHELVED_OFFLOADED$"),
        ("openstack server start put-away", Refused("the server's status is SHELVED_OFFLOADED")),
        ("openstack server unshelve --wait put-away", ""),
        ("openstack server show put-away -f value -c status", "^ACTIVE$"),
        ("nova shelve put-away", NOTHING),
        ("WAIT put-away SHELVED_OFFLOADED", ""),
        ("nova unshelve put-away", NOTHING),
        ("WAIT put-away ACTIVE", ""),
        (
            "openstack server event list put-away -f value -c Action",
            r"^unshelve\nshelve\nunshelve\nshelve\ncreate$",
        ),
        ("openstack server delete --wait put-away", NOTHING),
    ),
    "a server moved by the admin of its zone": (
        (f"{CREATE} {AT_ROOT} mover", "^ACTIVE$"),
        ("openstack server migrate --wait mover", "Complete"),
        ("openstack server show mover -f value -c status", "^ACTIVE$"),
        ("nova migrate --poll mover", "Finished"),
        ("WAIT mover ACTIVE", ""),
        ("openstack server event list mover -f value -c Action", r"^migrate\nmigrate\ncreate$"),
        ("openstack server migrate confirm mover", Refused("confirmResize")),
        (f"{CREATE} {BELOW} stayer", "^ACTIVE$"),
        ("openstack server migrate stayer", Refused("an admin of the zone that has its host moves it there")),
        ("nova migrate stayer", Refused("an admin of the zone that has its host moves it there")),
        ("openstack server delete --wait mover stayer", NOTHING),
    ),
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
        ("openstack aggregate add host rack root-general-1 -f value -c hosts", "root-general-1"),
        ("openstack aggregate set --property ssd=true --name racks rack", NOTHING),
        ("openstack aggregate show racks -f value -c properties", "ssd.*true"),
        ("openstack aggregate unset --property ssd racks", NOTHING),
        ("openstack aggregate list --long -f value -c Name -c Properties", r"^racks \{\}$"),
        ("openstack aggregate delete racks", Refused("The aggregate has hosts")),
        ("openstack aggregate remove host racks root-general-1 -f value -c name", "^racks$"),
        ("openstack aggregate delete racks", NOTHING),
        ("openstack aggregate list", NOTHING),
    ),
    "flavors": (
        (
            "openstack flavor create --vcpus 2 --ram 128 --disk 2 --ephemeral 1 --swap 512 --private"
            " --property hw:x=1 --description 'for tests' -f value -c ram -c swap medium",
            r"^128\n512$",
        ),
        ("openstack flavor list -f value -c Name", "^small$"),
        ("openstack flavor list --all -f value -c Name", r"^medium\nsmall$|^small\nmedium$"),
        ("openstack flavor set --property hw:y=2 --description changed medium", NOTHING),
        ("openstack flavor unset --property hw:x medium", NOTHING),
        ("openstack flavor show medium -f value -c properties -c description", r"^changed\n.*hw:y.*2"),
        ("openstack flavor delete medium", NOTHING),
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
    "the older client": (
        ("nova boot --flavor small --nic none --image plain"
         " --availability-zone leaf-rack-1 --meta a=b --poll old", "Finished"),
        ("nova list", r"\| old +\| ACTIVE "),
        ("nova show old", r"\| status +\| ACTIVE "),
        ("nova stop old", "Request to stop server old has been accepted"),
        ("WAIT old SHUTOFF", ""),
        ("nova start old", "Request to start server old has been accepted"),
        ("WAIT old ACTIVE", ""),
        ("nova reboot --poll old", "Finished"),
        ("nova pause old", NOTHING),
        ("WAIT old PAUSED", ""),
        ("nova unpause old", NOTHING),
        ("WAIT old ACTIVE", ""),
        ("nova meta old set c=d", NOTHING),
        ("nova server-tag-add old first", "has been accepted"),
        ("nova server-tag-list old", r"\| first +\|"),
        ("nova instance-action-list old", r"\| unpause +\|"),
        ("nova lock old", NOTHING),
        ("nova unlock old", NOTHING),
        ("nova keypair-list", "Name"),
        ("nova flavor-list", r"\| small +\| 64 "),
        ("nova quota-show --tenant any", r"\| instances +\| [0-9-]+ +\|"),
        ("nova aggregate-list", "Availability Zone"),
        ("nova availability-zone-list", "leaf-rack-1"),
        ("nova hypervisor-list", r"\| root-general-1 +\| up "),
        ("nova service-list", r"\| nova-compute +\| root-general-1 "),
        ("nova server-group-list", "Policy"),
        ("nova delete old", "Request to delete server old has been accepted"),
        ("nova show old", Refused("No server with a name or ID of 'old' exists")),
    ),
}  # fmt: skip
