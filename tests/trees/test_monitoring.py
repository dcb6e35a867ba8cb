"""The dashboard and the alert rules use metrics, labels and values that a real zone has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.builders.boots import boot
from tests.builders.played_agent import PlayedAgent
from tests.builders.scraped import samples_of
from tests.builders.tree import Tree, a_host
from tests.builders.wsgi_transport import Dead
from zonesched.api.app import METRICS
from zonesched.model.placement import PlacementState
from zonesched.serving.gauges import Load, ServerGauges

pytestmark = pytest.mark.once

CHECKOUT = Path(__file__).parents[2]
MONITORING = CHECKOUT / "etc" / "monitoring"
ADDED_BY_PROMETHEUS = {"job", "instance"}
SELECTOR = re.compile(r"\b((?:zonesched|process)_\w+)(?:\{([^}]*)\})?")
MATCHER = re.compile(r"(\w+)\s*(=~|!=|!~|=)\s*\"([^\"]*)\"")
GROUPING = re.compile(r"\b(?:by|without|on)\s*\(([^)]*)\)")
STATES = {state.value for state in PlacementState}


@dataclass(frozen=True)
class Expression:
    """An expression of PromQL, and where it stands."""

    place: str
    text: str

    @property
    def selectors(self) -> list[tuple[str, list[tuple[str, str, str]]]]:
        """Metrics with their matchers (label, operator, value)."""
        return [(name, MATCHER.findall(matchers)) for name, matchers in SELECTOR.findall(self.text)]

    @property
    def grouped_by(self) -> set[str]:
        return {name.strip() for group in GROUPING.findall(self.text) for name in group.split(",")} - {""}


def rules() -> list[dict[str, Any]]:
    loaded = yaml.safe_load((MONITORING / "alerts.yml").read_text())
    return [rule for group in loaded["groups"] for rule in group["rules"]]


def expressions() -> list[Expression]:
    dashboard = json.loads((MONITORING / "dashboard.json").read_text())
    found = [Expression(rule["alert"], rule["expr"]) for rule in rules()]
    for panel in dashboard["panels"]:
        found += [Expression(panel["title"], target["expr"]) for target in panel.get("targets", ())]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            found.append(Expression(variable["name"], variable["query"]["query"]))
    return found


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Mapping[str, set[str]]]]:
    """The values of each label of each metric, of a root that has worked, failed and lost its child."""
    tree = Tree(tmp_path_factory.mktemp("zones"))
    root = tree.add("root", hosts_=[a_host("near", vcpus=1), a_host("off", vcpus=1)], service_down_time=60.0)
    tree.add("leaf", parent="root", hosts_=[a_host("far", vcpus=1)])
    root.app.extensions[METRICS].registry.register(ServerGauges(lambda: Load(1, 1, 1, 1)))
    root.client().post("/flavors", {"flavor": {"name": "small", "vcpus": 1, "ram": 64, "disk": 1}})
    tree.poll()
    for num_instances in (3, 9):
        boot(tree, num_instances=num_instances)
        tree.settle()
        for node in tree.nodes.values():
            PlayedAgent(node).converge()
    boot(tree, num_instances=1)
    tree.network.fault(tree.nodes["leaf"].url, Dead())
    tree.poll()
    tree.clock.advance(100.0)
    found: defaultdict[str, defaultdict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for sample in samples_of(root):
        found[sample.name]["le"] |= set()
        for label, value in sample.labels.items():
            found[sample.name][label].add(value)
    yield found
    for node in tree.nodes.values():
        node.zone.stop()


@pytest.mark.parametrize("expression", expressions(), ids=lambda expression: expression.place)
def test_an_expression_names_what_a_zone_has(
    exposed: Mapping[str, Mapping[str, set[str]]], expression: Expression
) -> None:
    selectors = expression.selectors
    assert selectors or expression.text.startswith("up{")
    for name, matchers in selectors:
        # A zone without unfinished placements has no sample of theirs.
        labels = {"state": STATES} if name == "zonesched_placements" else exposed.get(name)
        assert labels is not None, f"{expression.place}: {name} is no metric"
        for label, operator, value in matchers:
            if label in ADDED_BY_PROMETHEUS:
                continue
            assert label in labels, f"{expression.place}: {name} has no label {label}"
            values = re.split(r"\|", value) if "~" in operator else [value]
            fixed = [one for one in values if re.fullmatch(r"[\w-]+", one)]
            assert set(fixed) <= labels[label], f"{expression.place}: {label} of {name} is never {value}"
    known = set().union(*(exposed.get(name, {"state": STATES}) for name, _ in selectors))
    assert expression.grouped_by <= known | ADDED_BY_PROMETHEUS | {"le"}, expression


def test_each_alert_has_its_line_in_the_documentation() -> None:
    page = (CHECKOUT / "docs" / "operate.md").read_text()
    described = re.findall(r"^\| `([A-Z]\w+)` \|", page, re.MULTILINE)

    assert described == [rule["alert"] for rule in rules()]


def test_alerts_say_what_is_wrong_and_how_urgent_it_is() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in ("page", "ticket"), rule
        assert rule["annotations"]["summary"].endswith("."), rule
        assert re.fullmatch(r"\d+m", rule["for"]), rule


def test_the_panels_do_not_overlap_and_have_their_own_ids() -> None:
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_takes_the_rules() -> None:
    subprocess.run(["promtool", "check", "rules", str(MONITORING / "alerts.yml")], check=True)
