"""Only work without effects looks whether its caller is still there, wherever it waits for a child."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.builders.audited_tree import a_booted_tree, root_of
from tests.builders.tree import Tree
from zonesched.api.call import IS_WANTED
from zonesched.errors import ChildUnreachable
from zonesched.zones.call import BoundCall, Call, Reply, Rest
from zonesched.zones.transport import Transport, each_alone

pytestmark = pytest.mark.once

SERVER = {"name": "vm", "flavorRef": "small", "num_instances": 1}


class Noting:
    """A transport that notes for each call whether it ends with the caller of this function."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.ends_with_caller: list[bool] = []

    def is_there(self) -> bool:
        return True

    def send(self, call: Call, timeout_s: float, max_bytes: int) -> Reply:
        self.ends_with_caller.append(call.is_wanted == self.is_there)
        return self._transport.send(call, timeout_s, max_bytes)

    def send_together(
        self, calls: Sequence[BoundCall], timeout_s: float, is_wanted: Callable[[], bool]
    ) -> Iterator[tuple[int, Reply | ChildUnreachable | Rest]]:
        return each_alone(self, calls)

    def check_url(self, unverified: str, timeout_s: float) -> str:
        return self._transport.check_url(unverified, timeout_s)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return a_booted_tree(tmp_path)


def noted(tree: Tree, method: str, path: str, body: Any = None) -> list[bool]:
    """Whether each call to a child ends with its caller, of this request and of the work that follows it."""
    root = root_of(tree)
    noting = Noting(root.transport)
    root.children._transport = noting
    environ = {IS_WANTED: noting.is_there}
    made = tree.nodes["root"].client().call(method, path, body, environ=environ)
    assert made.status < 300
    tree.settle(1)
    return noting.ends_with_caller


def uuid_of(tree: Tree) -> str:
    return str(tree.nodes["root"].client().get("/servers").json["servers"][0]["id"])


def test_a_dry_run_ends_with_its_caller(tree: Tree) -> None:
    assert noted(tree, "POST", "/zones/boot", {"server": SERVER, "dry_run": True})[0]


def test_a_shown_instance_is_read_for_its_caller_alone(tree: Tree) -> None:
    assert noted(tree, "GET", f"/servers/{uuid_of(tree)}")[0]


def test_an_audit_ends_with_its_caller(tree: Tree) -> None:
    # Three reads of the child's feed, and its report.
    assert noted(tree, "GET", "/audit?tree=true")[:4] == [True] * 4


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_what_has_effects_goes_on_without_its_caller(tree: Tree, method: str) -> None:
    if method == "POST":
        calls = noted(tree, "POST", "/zones/boot", {"server": SERVER})
    else:
        calls = noted(tree, "DELETE", f"/servers/{uuid_of(tree)}")

    assert calls
    assert not any(calls)
