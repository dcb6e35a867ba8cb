"""A zone's metrics: what they count, what a scrape costs, and that they keep Prometheus' conventions.

https://prometheus.io/docs/practices/naming/, and the checks of `promtool check metrics`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.builders.boots import boot
from tests.builders.played_agent import PlayedAgent
from tests.builders.scenes import built_once
from tests.builders.scraped import labelled, text_of, value
from tests.builders.tree import Node, Tree, a_host
from tests.builders.wsgi_transport import Dead
from zonesched import __version__
from zonesched.api.app import METRICS
from zonesched.errors import ZoneschedError
from zonesched.services.gauges import PAUSES_PER_COUNT
from zonesched.services.state.store_counts import MAX_REASONS
from zonesched.serving.gauges import Load, ServerGauges
from zonesched.store import outcomes
from zonesched.store.outcomes import BecameError
from zonesched.store.store import Transaction

NOT_A_BASE_UNIT = re.compile(r"_(ms|milliseconds|minutes|hours|mb|kb|megabytes|kilobytes|percent)(_|$)")


@pytest.fixture
@built_once
def tree(tmp_path: Path) -> Tree:
    """A root with a host of its own, a child, and a flavor."""
    tree = Tree(tmp_path)
    root = tree.add("root", hosts_=[a_host("near", vcpus=2)])
    tree.add("leaf", parent="root", hosts_=[a_host("far", vcpus=4)])
    tree.poll()
    root.client().post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 64, "disk": 1}})
    return tree


def boot_to_the_end(tree: Tree, num_instances: int, after_s: float = 0.0) -> None:
    """Boot in the root, let the agents build `after_s` seconds later, and the news come back."""
    boot(tree, num_instances=num_instances)
    tree.settle()
    tree.clock.advance(after_s)
    for node in tree.nodes.values():
        PlayedAgent(node).converge()
    tree.settle()


# -- conventions -----------------------------------------------------------------------------------------


def families(node: Node) -> list[Metric]:
    return list(text_string_to_metric_families(text_of(node)))


def test_names_and_units_keep_the_conventions(tree: Tree) -> None:
    boot_to_the_end(tree, 4)

    found = families(tree.nodes["root"])

    names = [family.name for family in found]
    assert len(names) == len(set(names))
    for family in found:
        assert re.fullmatch(r"(zonesched|process)_[a-z0-9_]+", family.name), family
        assert family.documentation.endswith("."), family
        assert not NOT_A_BASE_UNIT.search(family.name), family
        assert family.type in ("counter", "gauge", "histogram"), family
        assert not re.search(r"_(total|count|sum|bucket)$", family.name), family
        if family.type == "histogram":
            assert family.name.endswith("_seconds"), family
        if family.type == "counter":
            assert {s.name for s in family.samples} <= {f"{family.name}_total", f"{family.name}_created"}
        for sample in family.samples:
            assert all(re.fullmatch(r"[a-z_]+", label) for label in sample.labels), sample


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_nothing(tree: Tree) -> None:
    checked = subprocess.run(
        ["promtool", "check", "metrics"], input=text_of(tree.nodes["root"]), capture_output=True, text=True
    )

    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def described_metrics() -> set[str]:
    """The names in the first column of the documentation's tables."""
    page = (Path(__file__).parents[2] / "docs" / "operate.md").read_text()
    rows = re.findall(r"^\| (`(?:zonesched|process)_.*?) \|", page, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


def exposed_metrics(node: Node) -> set[str]:
    """Names as they are described: counters with their ending, histograms without."""
    return {f"{f.name}_total" if f.type == "counter" else f.name for f in families(node)}


def test_every_metric_is_described_in_the_documentation(tree: Tree) -> None:
    root = tree.nodes["root"]
    root.app.extensions[METRICS].registry.register(ServerGauges(lambda: Load(1, 2, 3, 4)))
    boot_to_the_end(tree, 4)

    assert {name for name in exposed_metrics(root) if not name.endswith("_created")} == described_metrics()


def test_a_monitor_reads_the_metrics_and_nothing_else(tree: Tree) -> None:
    monitor = tree.nodes["root"].client("monitor")

    found = {path: monitor.get(path).status for path in ("/metrics", "/health", "/servers", "/zones")}
    assert found == {"/metrics": 200, "/health": 200, "/servers": 403, "/zones": 403}


# -- what is counted -------------------------------------------------------------------------------------


def test_a_boot_is_counted_from_its_acceptance_to_its_last_instance(tree: Tree) -> None:
    root, leaf = tree.nodes["root"], tree.nodes["leaf"]

    boot_to_the_end(tree, 5, after_s=40.0)

    assert labelled(root, "zonesched_boots_accepted_total") == {("user",): 1}
    assert value(root, "zonesched_instances_accepted_total") == 5
    assert value(root, "zonesched_instance_build_seconds_count") == 5
    assert value(root, "zonesched_instance_build_seconds_sum") == pytest.approx(200.0)
    assert value(root, "zonesched_instance_build_seconds_bucket", le="30.0") == 0
    assert value(root, "zonesched_instance_build_seconds_bucket", le="60.0") == 5
    assert labelled(leaf, "zonesched_boots_accepted_total") == {("parent",): 1}
    below = [f"zonesched_{name}" for name in ("instances_accepted_total", "instance_build_seconds_count")]
    assert [value(leaf, name) for name in below] == [3, 3]
    assert labelled(root, "zonesched_instances") == {("ACTIVE",): 5}


def test_no_build_takes_negative_time_when_the_clock_was_set_back_meanwhile(tree: Tree) -> None:
    root = tree.nodes["root"]
    boot(tree, num_instances=2)
    tree.settle()
    tree.clock.set_to(tree.clock.now() - 3600.0)
    for node in tree.nodes.values():
        PlayedAgent(node).converge()
    tree.settle()

    assert value(root, "zonesched_instance_build_seconds_count") == 2
    assert value(root, "zonesched_instance_build_seconds_sum") == 0.0


def test_a_server_that_is_shelved_is_counted_by_the_status_that_it_shows(tree: Tree) -> None:
    root = tree.nodes["root"]
    boot_to_the_end(tree, 1)
    (server,) = root.client().get("/servers").json["servers"]

    root.client().post(f"/servers/{server['id']}/action", {"shelve": None})
    for _ in range(2):
        tree.settle()
        for node in tree.nodes.values():
            PlayedAgent(node).converge()
    tree.settle()

    assert labelled(root, "zonesched_instances") == {("SHELVED_OFFLOADED",): 1}


def test_a_boot_that_fits_nowhere_is_counted_by_its_reason(tree: Tree) -> None:
    root = tree.nodes["root"]

    boot_to_the_end(tree, 7)

    assert sum(labelled(root, "zonesched_instance_failures_total").values()) == 7
    assert labelled(root, "zonesched_instance_failures_total").keys() == {("no_valid_host",)}
    assert labelled(root, "zonesched_instances") == {("ERROR",): 7}


def test_hosts_and_agents_are_counted_by_their_state(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    node = tree.add("zone", hosts_=[a_host("one"), a_host("two"), a_host("three")], service_down_time=60.0)
    [service] = [s for s in node.client().get("/os-services").json["services"] if s["host"] == "two"]
    disabled = node.client().call("PUT", f"/os-services/{service['id']}", {"status": "disabled"})
    assert disabled.status == 200

    assert labelled(node, "zonesched_hosts") == {("up", "enabled"): 2, ("up", "disabled"): 1}
    assert labelled(node, "zonesched_services") == {("zonesched-compute", "up"): 1}

    forced = node.client().call("PUT", f"/os-services/{service['id']}", {"forced_down": True})
    assert forced.status == 200
    assert labelled(node, "zonesched_hosts") == {("up", "enabled"): 2, ("down", "disabled"): 1}

    tree.clock.advance(61.0)
    assert labelled(node, "zonesched_hosts") == {("down", "enabled"): 2, ("down", "disabled"): 1}
    assert labelled(node, "zonesched_services") == {("zonesched-compute", "down"): 1}


def test_capacity_and_use_are_sums_over_hosts(tree: Tree) -> None:
    root = tree.nodes["root"]

    boot_to_the_end(tree, 5)

    assert labelled(root, "zonesched_resource_capacity")["VCPU",] == 2
    assert labelled(root, "zonesched_resource_used")["VCPU",] == 2
    assert labelled(tree.nodes["leaf"], "zonesched_resource_used")["VCPU",] == 3


def test_open_boots_leases_and_placements_are_there_while_a_boot_goes_on(tree: Tree) -> None:
    root = tree.nodes["root"]

    boot(tree, num_instances=1)

    alone = ("zonesched_boots_open", "zonesched_boots_leased", "zonesched_boots_waiting")
    assert [value(root, name) for name in alone] == [1, 1, 1]
    tree.settle()
    assert [value(root, name) for name in alone] == [0, 0, 0]


def test_a_child_that_is_offline_counts_as_down(tree: Tree) -> None:
    root = tree.nodes["root"]
    assert labelled(root, "zonesched_child_up") == {("leaf",): 1}

    tree.network.fault(tree.nodes["leaf"].url, Dead())
    tree.poll()

    assert labelled(root, "zonesched_child_up") == {("leaf",): 0}


def test_writes_are_timed(tree: Tree) -> None:
    root = tree.nodes["root"]
    before = value(root, "zonesched_database_write_seconds_count")

    root.zone.store.write(lambda tx: tree.clock.advance(3.0))

    assert value(root, "zonesched_database_write_seconds_count") == before + 1
    assert value(root, "zonesched_database_write_seconds_sum") == pytest.approx(3.0)


def test_the_version_is_a_label(tree: Tree) -> None:
    assert value(tree.nodes["root"], "zonesched_build_info", version=__version__) == 1


# -- what is not counted ---------------------------------------------------------------------------------


def error(tx: Transaction, reason: str) -> None:
    outcomes.note(tx, BecameError(reason, 1, (), 0.0))


def test_what_was_rolled_back_is_not_counted(tree: Tree) -> None:
    root = tree.nodes["root"]

    def fail(tx: Transaction) -> None:
        error(tx, "never_written")
        raise ZoneschedError("no")

    with pytest.raises(ZoneschedError):
        root.zone.store.write(fail)

    assert labelled(root, "zonesched_instance_failures_total") == {}


def test_agents_cannot_make_any_number_of_series(tree: Tree) -> None:
    root = tree.nodes["root"]

    for number in range(MAX_REASONS + 50):
        root.zone.store.write(lambda tx, n=number: error(tx, f"reason_{n}"))

    found = labelled(root, "zonesched_instance_failures_total")
    assert len(found) == MAX_REASONS + 1
    assert found["other",] == 50


# -- what a scrape costs ---------------------------------------------------------------------------------


def counting_takes(node: Node, tree: Tree, seconds: float) -> list[float]:
    """Let each read of the zone's rows take some time; the list grows by one with each read."""
    read = node.zone.store.read
    reads: list[float] = []

    def slow(fn: Callable[[Transaction], Any]) -> Any:
        reads.append(tree.clock.monotonic())
        tree.clock.advance(seconds)
        return read(fn)

    node.zone.store.read = slow  # type: ignore[method-assign]
    return reads


def test_rows_are_counted_again_only_after_a_hundred_times_as_long(tree: Tree) -> None:
    root = tree.nodes["root"]
    gauges = root.app.extensions[METRICS]
    reads = counting_takes(root, tree, 0.2)

    gauges.text()
    for _ in range(19):
        tree.clock.advance(1.0)
        gauges.text()
    assert len(reads) == 1

    tree.clock.advance(1.5)
    assert b"zonesched_tallies_age_seconds 0.2" in gauges.text()
    assert len(reads) == 2
    assert reads[1] - reads[0] >= 0.2 * PAUSES_PER_COUNT


def test_metrics_are_there_while_the_rows_cannot_be_read(tree: Tree) -> None:
    root = tree.nodes["root"]
    gauges = root.app.extensions[METRICS]
    assert b"zonesched_database_up 1.0\n" in gauges.text()

    root.zone.store.write(lambda tx: tx.exec_driver_sql("ALTER TABLE instances RENAME TO gone"))
    tree.clock.advance(60.0)
    text = gauges.text()
    # What empties the database after the test needs all its tables.
    root.zone.store.write(lambda tx: tx.exec_driver_sql("ALTER TABLE gone RENAME TO instances"))

    assert b"zonesched_database_up 0.0\n" in text
    assert b"zonesched_instances{" not in text
    assert b"zonesched_boots_waiting 0.0\n" in text


@pytest.mark.parametrize("user", ["monitor", "nobody", ""])
def test_a_scrape_tells_that_the_database_is_down_although_nobody_can_be_authenticated(
    tree: Tree, user: str
) -> None:
    root = tree.nodes["root"]
    root.zone.store.write(lambda tx: tx.exec_driver_sql("ALTER TABLE users RENAME TO gone"))
    scraped, listed = root.client(user).get("/metrics"), root.client(user).get("/servers")
    # What empties the database after the test needs all its tables.
    root.zone.store.write(lambda tx: tx.exec_driver_sql("ALTER TABLE gone RENAME TO users"))

    # Whoever sends no credentials is refused before any row is read.
    assert (scraped.status, listed.status) == ((200, 503) if user else (401, 401))
    if user:
        [family] = text_string_to_metric_families(scraped.body.decode())
        assert [(one.name, one.value) for one in family.samples] == [("zonesched_database_up", 0.0)]
    assert value(root, "zonesched_database_up") == 1.0
