"""Metrics of each child: latency, outcomes, the age of its ranges."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.builders.scenes import built_once
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Dead, Fault, Replace, Slow

pytestmark = pytest.mark.once


@built_once
def a_tree(folder: Path) -> Tree:
    tree = Tree(folder)
    tree.add("root")
    tree.add("leaf", parent="root", hosts_=[a_host("h1")])
    tree.nodes["root"].zone.children.poll()
    return tree


def samples(tree: Tree, name: str) -> dict[tuple[str, ...], float]:
    """The values of one metric at the root, by child, call and outcome as far as it has them."""
    labels = ("child", "call", "outcome")
    text = tree.nodes["root"].client().get("/metrics").body.decode()
    families = text_string_to_metric_families(text)
    found = [sample for family in families for sample in family.samples if sample.name == name]
    return {tuple(s.labels[key] for key in labels if key in s.labels): s.value for s in found}


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (Dead(), "child_unreachable"),
        (Slow(60.0), "child_timeout"),
        (Replace(status=401), "child_refused"),
        (Replace(status=500), "child_failed"),
        (Replace(body=b"{}"), "child_invalid_answer"),
        (Replace(status=503, headers={"Retry-After": "3"}), "child_busy"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_polls_are_counted_by_how_they_end(tmp_path: Path, fault: Fault, outcome: str) -> None:
    tree = a_tree(tmp_path)
    tree.network.fault(tree.nodes["leaf"].url, fault)
    tree.nodes["root"].zone.children.poll()

    counted = samples(tree, "zonesched_child_calls_total")

    assert counted == {("leaf", "poll", "answered"): 1.0, ("leaf", "poll", outcome): 1.0}


def test_the_work_of_a_boot_is_counted_and_timed(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    root = tree.nodes["root"].client()
    root.post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 64, "disk": 1}})
    root.post("/zones/boot", {"server": {"name": "vm", "flavorRef": "small", "num_instances": 1}})
    tree.step("root")

    answered = samples(tree, "zonesched_child_calls_total")["leaf", "work", "answered"]
    timed = samples(tree, "zonesched_child_call_seconds_count")["leaf", "work"]

    # Select, build and confirm, and the sync's questions.
    assert answered == timed >= 3


def test_the_age_of_what_a_child_told_grows_until_it_answers(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    ages = []
    for seconds in (0, 30, 0):
        tree.clock.advance(seconds)
        ages.append(samples(tree, "zonesched_child_ranges_age_seconds")["leaf",])
    tree.nodes["root"].zone.children.poll()

    assert ages == [0.0, 30.0, 30.0]
    assert samples(tree, "zonesched_child_ranges_age_seconds")["leaf",] == 0.0


def test_a_child_that_was_removed_is_told_of_no_more(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    root = tree.nodes["root"]
    (child,) = root.client().get("/zones").json["zones"]
    root.client().delete(f"/zones/{child['id']}")
    root.zone.children.poll()

    assert samples(tree, "zonesched_child_calls_total") == {}
    assert samples(tree, "zonesched_child_call_seconds_count") == {}
