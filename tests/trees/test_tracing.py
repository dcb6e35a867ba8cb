"""The id of a user's request is in the logs of all zones and agents that work for it, and no secret is."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from tests.builders.one_zone import sql
from tests.builders.overheard import LogsByZone, RecordingNetwork
from tests.builders.tree import Tree, a_host
from tests.builders.wire import Wire
from zonesched import log_lines, tracing
from zonesched.compute.agent import Agent, Rhythm
from zonesched.compute.client import AgentClient
from zonesched.compute.driver import DriverSettings
from zonesched.compute.fake import FakeDriver
from zonesched.tracing import HEADER, Trace

pytestmark = pytest.mark.once

FLAVOR = {"flavor": {"name": "small", "vcpus": 1, "ram": 64, "disk": 1}}
BOOT = {"server": {"name": "vm", "flavorRef": "small", "num_instances": 2}}


# -- lines -------------------------------------------------------------------------------------------------


def record(message: str, *args: object, exc_info: object = None) -> logging.LogRecord:
    return logging.LogRecord("zonesched.x", logging.INFO, "f", 1, message, args, exc_info)  # type: ignore[arg-type]


def test_a_json_line_has_the_ids_of_what_the_thread_works_for() -> None:
    with tracing.within(Trace("req-1", "boot-1")):
        line = json.loads(log_lines.JsonLines().format(record("%s is %d", "it", 3)))

    assert line.pop("time").endswith("Z")
    assert line == {
        "level": "INFO",
        "logger": "zonesched.x",
        "request_id": "req-1",
        "reservation_id": "boot-1",
        "message": "it is 3",
    }


@pytest.mark.parametrize("formatter", [log_lines.JsonLines(), log_lines.KeyValueLines()])
def test_nothing_that_is_logged_makes_a_second_line(formatter: logging.Formatter) -> None:
    try:
        raise ValueError("two\nlines\u2028three")
    except ValueError as error:
        found = record("a\nrequest_id=forged", exc_info=(ValueError, error, error.__traceback__))

    line = formatter.format(found)

    assert len(line.splitlines()) == 1
    assert "ValueError" in line


def test_a_text_line_quotes_what_has_to_be() -> None:
    with tracing.within(Trace("req-1")):
        line = log_lines.KeyValueLines().format(record('say "x" = y'))

    assert 'logger=zonesched.x request_id=req-1 message="say \\"x\\" = y"' in line


def test_a_block_ends_with_what_was_before() -> None:
    with tracing.within(Trace("a")):
        with tracing.within(Trace("b")):
            tracing.about("boot")
            inner = tracing.current()
        assert (inner, tracing.current()) == (Trace("b", "boot"), Trace("a"))


# -- a tree ------------------------------------------------------------------------------------------------


def a_tree(folder: Path, **kwargs: Any) -> Tree:
    tree = Tree(folder, **kwargs)
    tree.add("root")
    tree.add("region", parent="root")
    tree.add("leaf", parent="region", hosts_=[a_host("leafs-own-host")])
    tree.poll()
    tree.nodes["root"].client().post("/flavors", FLAVOR)
    return tree


def desired(tree: Tree) -> list[dict[str, str]]:
    found: list[dict[str, str]] = (
        tree.nodes["leaf"].client("compute").get("/hosts/instances?service=agent").json["instances"]
    )
    return found


def test_the_id_goes_down_with_every_call_of_the_boot(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    before = len(tree.network.sent)

    answer = tree.nodes["root"].client().post("/zones/boot", BOOT, headers={HEADER: "my-id.1"})
    tree.settle(1)

    sent = [s for s in tree.network.sent[before:] if s.method == "POST"]
    assert answer.headers["x-openstack-request-id"] == "my-id.1"
    assert {s.headers.get(HEADER) for s in sent} == {"my-id.1"}
    assert {"select", "servers", "confirm"} == {s.url.rpartition("/")[2] for s in sent}


def test_an_agent_is_told_whose_request_it_works_for(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    made = tree.nodes["root"].client().post("/zones/boot", BOOT, headers={HEADER: "my-id.1"}).json
    tree.settle()

    found = {(item["request_id"], item["reservation_id"]) for item in desired(tree)}

    assert found == {("my-id.1", made["reservation_id"])}


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "a\tb", "ü"])
def test_an_id_of_another_form_is_not_taken_over(tmp_path: Path, given: str) -> None:
    node = Tree(tmp_path).add("zone")

    answer = node.client().call("GET", "/flavors", headers={HEADER: given})

    assert answer.headers["x-openstack-request-id"].startswith("req-")


def test_the_id_is_in_the_logs_of_every_zone_and_agent_and_no_secret_or_host_of_others_is(
    tmp_path: Path,
) -> None:
    network = RecordingNetwork()
    tree = a_tree(tmp_path, network=network)
    clock = tree.nodes["leaf"].zone.clock
    driver = FakeDriver(DriverSettings(), clock)
    agent = Agent(AgentClient(Wire(tree, "leaf"), "agent"), driver, clock, [], Rhythm())  # type: ignore[arg-type]
    logs = LogsByZone(network)
    logs.setFormatter(log_lines.KeyValueLines())

    with logs.listening():
        with network.working(tree.nodes["root"].url):
            made = tree.nodes["root"].client().post("/zones/boot", BOOT, headers={HEADER: "my-id.1"}).json
        for name in [*tree.nodes] * 3:
            with network.working(tree.nodes[name].url):
                tree.step(name)
        with network.working("agent"):
            agent.step()

    (leaf_host,) = sql(tree.nodes["leaf"].zone, "select id, name from hosts")
    secrets = [secret for node in tree.nodes.values() for secret in node.secrets.values()]
    secrets += [key for node in tree.nodes.values() for key in node.zone.conf.build_plan_encryption_key]
    for who in (*(node.url for node in tree.nodes.values()), "agent"):
        text = "\n".join(line for url, line in logs.lines if url == who)
        assert "request_id=my-id.1" in text, who
        assert f"reservation_id={made['reservation_id']}" in text, who
        assert not [secret for secret in secrets if secret in text]
        if who not in ("agent", tree.nodes["leaf"].url):
            assert not [word for word in leaf_host if word in text]
