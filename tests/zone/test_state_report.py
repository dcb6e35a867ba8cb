"""The report of a process on itself: what it has in hand, its queues and children, and no secrets."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from tests.builders.migrated import url_of
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Dead
from zonesched.serving import state_report
from zonesched.serving.gauges import Load
from zonesched.store import copies
from zonesched.store.tables import unheard

LOAD = Load(requests_running=2, requests_waiting=3, threads=8, connections=5)
FLAVOR = {"flavor": {"name": "small", "vcpus": 1, "ram": 64, "disk": 1}}


def test_it_has_requests_queues_children_and_hosts(tmp_path: Path) -> None:
    # given a zone with two children, of which one is dead, and a boot that waits for a worker
    tree = Tree(tmp_path)
    root = tree.add("root", hosts_=[a_host("h1"), a_host("h2")])
    for name in ("north", "south"):
        tree.add(name, parent="root")
    tree.poll(2)
    tree.network.fault(tree.nodes["south"].url, Dead())
    tree.poll(3)
    root.client().post("/flavors", FLAVOR)
    boot = {"server": {"name": "web", "flavorRef": "small", "num_instances": 2}}
    root.client().post("/zones/boot", {**boot, "dry_run": True})
    root.client().post("/zones/boot", boot)

    # when it reports on itself
    lines = state_report.report(root.zone, LOAD).splitlines()

    # then each line says what is there
    assert lines[1].startswith(f"zone: root {root.zone.uuid}, open for ")
    assert "requests: 2 running of 8, 3 waiting" in lines
    assert "connections: 5 of callers, 0 to the database in use" in lines
    assert "boots: 1 waiting for a worker" in lines
    assert "selects: 0 of parents and dry runs running" in lines
    assert "hosts: 2 in memory" in lines
    assert "child north: ready" in lines
    (dead,) = [line for line in lines if line.startswith("child south: ")]
    assert dead.startswith("child south: offline, last error ")
    assert "thread MainThread:" in lines


def test_it_has_no_secrets(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    root = tree.add("root", hosts_=[a_host("h1")])
    text = state_report.report(root.zone, LOAD)
    secrets = [*root.secrets.values(), *root.zone.conf.build_plan_encryption_key]
    assert [secret for secret in secrets if secret in text] == []


def test_it_says_for_whom_a_restored_zone_waits(tmp_path: Path) -> None:
    # given a zone with an agent, whose rows were put back from a copy
    tree = Tree(tmp_path)
    tree.add("zone", hosts_=[a_host("h1")]).zone.store.close()
    copies.mark_restored(url_of(tmp_path / "zone.sqlite"), "5e" * 16)
    tree.restart("zone")
    zone = tree.nodes["zone"].zone
    # when it reports before its neighbours were heard, and after
    before = state_report.report(zone, LOAD).splitlines()
    zone.store.write(lambda tx: tx.execute(sa.delete(unheard).where(unheard.c.kind != "operator")))
    after = state_report.report(zone, LOAD).splitlines()
    # then it names them, and then its operator
    (line,) = [line for line in before if line.startswith("restored from a copy: waits for ")]
    assert line.startswith("restored from a copy: waits for agent ")
    assert "restored from a copy: waits for its operator" in after
