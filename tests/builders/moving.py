"""A zone whose servers move: a second host, actions on a server, and what is shown of it."""

from __future__ import annotations

from typing import Any

from tests.builders.one_zone import places_of
from tests.builders.played_agent import PlayedAgent
from tests.builders.tree import Answer, Node, Tree, a_host
from zonesched.services.hosts import hosts


def add_host(node: Node, name: str, **totals: Any) -> None:
    assert node.compute is not None
    hosts.register(node.zone, node.compute, "agent-2", [a_host(name, **totals)])
    hosts.beat(node.zone, node.compute, "agent-2")


class TwoAgents:
    """Agents of the two hosts of a leaf, which live on when a zone dies."""

    def __init__(self, tree: Tree, cannot_build: str = "") -> None:
        self._tree = tree
        self._agents = [PlayedAgent(tree.nodes["leaf"], service=name) for name in ("agent", "agent-2")]
        self._agents[1].cannot_build = cannot_build
        self.most = 0

    def step(self, *numbers: int) -> None:
        """One round of each of these agents in turn, if the zone answers them."""
        for number in numbers:
            self._agents[number].node = self._tree.nodes["leaf"]
            try:
                self._agents[number].converge()
            finally:
                self.most = max(self.most, len(self.running))

    @property
    def running(self) -> list[str]:
        return [uuid for agent in self._agents for uuid, _ in agent.running]


def booted(tree: Tree, agent: PlayedAgent, name: str = "leaf", **more: Any) -> str:
    """A server of a member that runs on the one host there is; its id."""
    body = {"server": {"name": "vm", "flavorRef": "small"}, **more}
    client = tree.nodes[name].client("member")
    made = client.post("/servers", body)
    assert made.status == 202, made.body
    tree.settle()
    agent.converge()
    uuid: str = made.json["server"]["id"]
    return uuid


def on_h1(tree: Tree, old: PlayedAgent, **more: Any) -> str:
    """A server on h1; after it there is a second host with room."""
    uuid = booted(tree, old, **more)
    add_host(tree.nodes["leaf"], "h2", vcpus=4)
    return uuid


def act(node: Node, uuid: str, body: Any, user: str = "admin") -> Answer:
    return node.client(user).post(f"/servers/{uuid}/action", body)


def shown(node: Node, uuid: str) -> tuple[str, str | None, str]:
    """Status, task state and host of a server."""
    found = node.client().get(f"/servers/{uuid}").json["server"]
    return found["status"], found["OS-EXT-STS:task_state"], found["OS-EXT-SRV-ATTR:host"]


def last(node: Node, uuid: str) -> tuple[str, str | None, str]:
    """The newest action on a server: name, result and code."""
    line = node.client().get(f"/servers/{uuid}/os-instance-actions").json["instanceActions"][0]
    return line["action"], line["result"], line["error_code"]


def states(node: Node, uuid: str) -> list[str]:
    return [place.state.value for place in places_of(node.zone, uuid)]


def code(reply: Answer) -> tuple[int, str]:
    ((fault,),) = [reply.json.values()]
    return reply.status, fault["error_code"]
