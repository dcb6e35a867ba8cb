"""Killing zones: a zone that dies at its n-th touch of a seam, and what must hold once all is healed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import orjson
import requests

from tests.builders.migrated import ask, following
from tests.builders.tree import Node, Tree


class Killed(BaseException):
    """The process is gone; nothing of it may catch this."""


class Seams:
    """Counts what a zone does at its seams (before and after each commit and call), and kills it there.

    To die before a step is to die after the one before it, unless somebody got an answer between the two:
    that counts once. So does a transaction that changes nothing.
    """

    def __init__(self, tree: Tree, name: str, kill_at: int) -> None:
        self.touched = 0
        self.killed = False
        self._stands_still = False
        self._kill_at = kill_at
        self._tree = tree
        self._name = name
        self._watch(tree.nodes[name])

    def _watch(self, node: Node) -> None:
        store, transport = node.zone.store, node.zone.transport
        write, send = store.write, transport.send
        watching = ExitStack()
        changes = watching.enter_context(following([self._tree.folder / f"{node.name}.sqlite"]))
        store.write = self._watched(write, changes)  # type: ignore[method-assign]
        transport.send = self._watched(send, lambda: True)  # type: ignore[method-assign]
        self._tree.network.mount(node.url, self._dying(node.app))
        self._unwatch: Callable[[], object] = lambda: (
            setattr(store, "write", write),
            setattr(transport, "send", send),
            watching.close(),
        )

    def _watched(self, call: Callable[..., Any], changes: Callable[[], bool]) -> Callable[..., Any]:
        """Watch a call; `changes` tells after it whether anything is different now."""

        def watched(*args: Any, **kwargs: Any) -> Any:
            if self.killed or not self._stands_still:
                self._touch()
                self._stands_still = True
            result = call(*args, **kwargs)
            if changes():
                self._touch()
                self._stands_still = True
            return result

        return watched

    def _touch(self) -> None:
        if self.killed:
            raise Killed
        self.touched += 1
        if self.touched == self._kill_at:
            self.killed = True
            raise Killed

    def _dying(self, app: Any) -> Callable[[dict[str, Any], Any], Iterable[bytes]]:
        """To its callers a zone that dies is a connection that breaks."""

        def serve(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            if self.killed:
                raise requests.ConnectionError("nobody is there")
            try:
                answer = list(app(environ, start_response))
                self._stands_still = False
                return answer
            except Killed:
                raise requests.ConnectionError("the connection broke") from None

        return serve

    def restart(self) -> None:
        """Another process starts on what the dead one had made durable."""
        self._unwatch()
        self.killed = False
        self._tree.restart(self._name)


def inconsistencies(tree: Tree) -> list[str]:
    """Violated rules in the databases, found by SQL alone."""
    found: list[str] = []
    placed: Counter[str] = Counter()
    status: dict[str, str] = {}
    for node in tree.nodes.values():
        path = tree.folder / f"{node.name}.sqlite"
        used: Counter[tuple[str, str]] = Counter()
        for uuid, host, resources, state in ask(
            path, "SELECT uuid, host_id, resources, state FROM placements WHERE kind = 'host'"
        ):
            if state in ("held", "confirmed"):
                placed[uuid] += 1
            if state in ("held", "confirmed", "parked", "releasing"):
                for name, amount in orjson.loads(resources).items():
                    used[host, name] += amount
        for host, name, stored, capacity in ask(
            path, "SELECT host_id, resource_class, used, capacity FROM inventories"
        ):
            if stored != used[host, name]:
                found.append(f"{node.name}: {name} used {stored}, claims {used[host, name]}")
            if stored > capacity:
                found.append(f"{node.name}: {name} used {stored} of {capacity}")
        own = ask(
            path, "SELECT uuid, status FROM instances WHERE caller_id = (SELECT zone_uuid FROM identity)"
        )
        status |= dict(own)
        for (state,) in ask(path, "SELECT state FROM reservations WHERE state = 'open'"):
            found.append(f"{node.name}: a reservation is {state}")
        for (state,) in ask(
            path,
            "SELECT state FROM placements WHERE state NOT IN ('confirmed', 'gone', 'failed', 'released')"
            " AND NOT (kind = 'host' AND state = 'releasing' AND reason = 'build_timeout')",
        ):
            found.append(f"{node.name}: a placement is {state}")
    for uuid, count in placed.items():
        if count > 1:
            found.append(f"{uuid} is placed {count} times")
        if status.get(uuid) not in ("BUILD", "ACTIVE"):
            found.append(f"{uuid} is placed and {status.get(uuid)}")
    found += [
        f"{u} is {s} and not placed" for u, s in status.items() if s in ("BUILD", "ACTIVE") and not placed[u]
    ]
    found += [f"{u} is {s}" for u, s in status.items() if s == "UNKNOWN"]
    return found


def open_actions(tree: Tree) -> list[Any]:
    """Actions on servers that have not ended, in any zone."""
    statement = "SELECT uuid, action FROM instance_actions WHERE finished_at = 0"
    return [row for name in tree.nodes for row in ask(tree.folder / f"{name}.sqlite", statement)]


def heal(tree: Tree, minutes: int = 4) -> None:
    """Time goes by and everything works again."""
    for _ in range(minutes * 4):
        tree.clock.advance(15)
        tree.poll(1)
        tree.settle(2)
        if not inconsistencies(tree):
            return
