"""No instance is larger than its host, whatever the host's allocation ratio."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.scenes import built_once
from tests.builders.tree import Tree
from zonesched.compute.inventory import InventoryHost


@built_once
def a_zone_of(folder: Path, **inventory: float) -> Tree:
    """One zone with one host, as its agent reports it: `inventory` is that of VCPU."""
    host = InventoryHost(
        "h1",
        inventories={
            "VCPU": inventory,
            "MEMORY_MB": {"total": 65536},
            "DISK_GB": {"total": 1000},
        },
    )
    tree = Tree(folder)
    client = tree.add("root").client("compute")
    assert client.call("PUT", "/hosts", {"service": "agent", "hosts": [host.to_wire()]}).status == 200
    return tree


def status_of_a_boot(tree: Tree, vcpus: int) -> str:
    """Boot one instance of that many VCPUs; its status."""
    client = tree.nodes["root"].client()
    flavor = {"id": "f", "name": "f", "vcpus": vcpus, "ram": 512, "disk": 1}
    assert client.post("/flavors", {"flavor": flavor}).status in (200, 201, 202)
    booted = client.post("/servers", {"server": {"name": "vm", "flavorRef": "f"}})
    assert booted.status == 202, booted.body
    tree.settle()
    return str(client.get(f"/servers/{booted.json['server']['id']}").json["server"]["status"])


@pytest.mark.parametrize(
    ("vcpus", "status"), [pytest.param(4, "BUILD", id="as-large"), pytest.param(9, "ERROR", id="larger")]
)
def test_one_instance_takes_at_most_what_its_host_has(tmp_path: Path, vcpus: int, status: str) -> None:
    tree = a_zone_of(tmp_path, total=4, ratio=16.0)

    assert status_of_a_boot(tree, vcpus) == status


def test_an_inventory_that_names_a_max_unit_keeps_it(tmp_path: Path) -> None:
    tree = a_zone_of(tmp_path, total=4, ratio=16.0, max_unit=16)

    assert status_of_a_boot(tree, 9) == "BUILD"
