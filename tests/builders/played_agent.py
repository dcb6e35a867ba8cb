"""An agent of a zone, played by its HTTP calls: it does what is desired, or says why not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.builders.migrated import ask
from tests.builders.tree import Answer, Node, Tree


@dataclass
class PlayedAgent:
    """The agent of one zone's hosts. `refuses`: by power, the reason for which it does not do it.

    `cannot_leave` and `cannot_build`: why it stops no instance for a move, and builds none that arrives.
    `running`: the instances that it has, by uuid and attempt, except those that it has stopped for a move.
    `reboots`: how often it has rebooted each server; `done`: the counts of reboots done or passed over.
    `rebuilds`: the names of the images from which it has rebuilt each server, in order.
    """

    node: Node
    refuses: dict[str, str] = field(default_factory=dict)
    reboots: dict[str, int] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    rebuilds: dict[str, list[str]] = field(default_factory=dict)
    power: dict[str, str] = field(default_factory=dict)
    sent: list[dict[str, Any]] = field(default_factory=list)
    service: str = "agent"
    cannot_leave: str = ""
    cannot_build: str = ""
    running: set[tuple[str, int]] = field(default_factory=set)

    def work(self) -> list[dict[str, Any]]:
        """Fetch what should run."""
        lines: list[dict[str, Any]] = self._fetch()["instances"]
        return lines

    def converge(self) -> None:
        """Fetch, do all of it, end what is to be released, and report."""
        found = self._fetch()
        lines = found["instances"]
        self.running = {key for key in self.running if key in set(map(_key, lines))}
        gone = [{**line, "state": "gone"} for line in found["releasing"]]
        self.report([*(self._do(line) for line in lines), *gone])

    def _fetch(self) -> dict[str, Any]:
        found = self.node.client("compute").get(f"/hosts/instances?service={self.service}")
        assert found.status == 200, found.body
        answer: dict[str, Any] = found.json
        return answer

    def bring_consoles(self, outputs: Mapping[str, str]) -> int:
        """Bring the outputs of these servers that are asked for; return how many were."""
        asked = [line for line in self._fetch()["consoles"] if line["uuid"] in outputs]
        for line in asked:
            assert self.bring(line["id"], outputs[line["uuid"]]).status == 204
        return len(asked)

    def bring(self, ask_id: str, output: str, state: str = "read") -> Answer:
        """Bring one output."""
        body = {"service": self.service, "id": ask_id, "state": state, "output": output}
        return self.node.client("compute").post("/hosts/consoles", body)

    def asked_consoles(self) -> list[dict[str, Any]]:
        """Fetch the consoles that are asked for."""
        lines: list[dict[str, Any]] = self._fetch()["consoles"]
        return lines

    def report(self, lines: list[dict[str, Any]]) -> None:
        self.sent = lines
        body = {"service": self.service, "reports": lines}
        assert self.node.client("compute").post("/hosts/reports", body).status == 204

    def _do(self, line: dict[str, Any]) -> dict[str, Any]:
        uuid, desired = line["uuid"], line["desired"]
        key = {"uuid": uuid, "attempt": line["attempt"]}
        if line["leaves_for"]:
            if not self.cannot_leave:
                self.running.discard(_key(line))
            return key | {"state": "left", "left_for": line["leaves_for"], "reason": self.cannot_leave}
        if line["moved_from"] and self.cannot_build:
            return key | {"state": "error", "reason": self.cannot_build}
        self.running.add(_key(line))
        wanted, reason = desired["power"], ""
        if wanted in self.refuses:
            reason, wanted = self.refuses[wanted], self.power.get(uuid, "running")
        if desired["reboots"] > self.done.get(uuid, 0) and wanted == "running":
            self.reboots[uuid] = self.reboots.get(uuid, 0) + 1
        self.done[uuid], self.power[uuid] = desired["reboots"], wanted
        rebuilds = self.rebuilds.setdefault(uuid, [])
        if desired["rebuilds"] > len(rebuilds) and not reason:
            reason = self.refuses.get("rebuild", "")
            rebuilds += [] if reason else [line["image"]["name"]]
        return a_report(line, desired["generation"], wanted, reason, len(rebuilds))


def _key(line: dict[str, Any]) -> tuple[str, int]:
    return line["uuid"], line["attempt"]


def a_report(
    line: dict[str, Any], generation: int, power: str, reason: str = "", rebuilds: int = 0
) -> dict[str, Any]:
    """A report on an instance that is there."""
    return {
        "uuid": line["uuid"],
        "attempt": line["attempt"],
        "state": "active",
        "generation": generation,
        "power": power,
        "reason": reason,
        "rebuilds": rebuilds,
    }


def agents_of(tree: Tree) -> dict[str, PlayedAgent]:
    """An agent for each zone of a tree that has hosts."""
    has_hosts = "SELECT count(*) FROM hosts"
    return {
        name: PlayedAgent(node)
        for name, node in tree.nodes.items()
        if ask(tree.folder / f"{name}.sqlite", has_hosts) != [(0,)]
    }
