"""Metrics, from an agent's inventory file to the choice of a host."""

from __future__ import annotations

from pathlib import Path

from tests.builders.tree import Tree
from zonesched.compute.inventory import read_inventory

INVENTORY = """\
name,VCPU,MEMORY_MB,DISK_GB,metrics
h1,8,8192,100,heat=3
h2,8,8192,100,heat=3;load=0.5
h3,8,8192,100,
"""


def test_only_a_host_whose_agent_reports_the_metric_is_chosen(tmp_path: Path) -> None:
    # given: a zone that weighs by load, and an agent that reports it of one host
    path = tmp_path / "hosts.csv"
    path.write_text(INVENTORY)
    tree = Tree(tmp_path)
    node = tree.add(
        "zone", enabled_filters=["ComputeFilter", "MetricsFilter"], metrics_weight_setting=["load=-1.0"]
    )
    hosts = [host.to_wire() for host in read_inventory(path)]
    agent = node.client("compute")
    assert agent.call("PUT", "/hosts", {"service": "agent", "hosts": hosts}).status == 200
    assert agent.post("/hosts/beat", {"service": "agent"}).status == 204
    node.client().post("/flavors", {"flavor": {"id": "f", "name": "f", "vcpus": 1, "ram": 512, "disk": 5}})

    # when
    body = {"server": {"name": "vm", "flavorRef": "f", "num_instances": 5}}
    assert node.client().post("/zones/boot", body).status == 202
    tree.settle()

    # then
    servers = node.client().get("/servers/detail").json["servers"]
    assert [server["OS-EXT-SRV-ATTR:host"] for server in servers] == ["h2"] * 5
