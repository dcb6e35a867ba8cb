"""Amounts in use at each moment, from the order of events and the amounts of the trace: pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .cards import CardRack
from .trace import CLASSES, Node, Task


@dataclass(frozen=True)
class Placed:
    """The tree said that the task has its place, as instance `uuid`."""

    uuid: str
    task: Task


@dataclass(frozen=True)
class Deleted:
    """The instance was deleted."""

    uuid: str


Event = Placed | Deleted


@dataclass(frozen=True)
class History:
    """`peak` by resource class over the whole cluster; `over_committed` says when, where and by how much."""

    peak: Mapping[str, int]
    over_committed: tuple[str, ...]
    no_single_card: int


def retrace(events: Iterable[Event], host_of: Mapping[str, str], nodes: Mapping[str, Node]) -> History:
    """Repeat all events on empty nodes; instances whose host is not known are left out."""
    used: dict[str, Counter[str]] = {name: Counter() for name in nodes}
    total: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    rack = CardRack(nodes)
    living: dict[str, Task] = {}
    over: list[str] = []
    no_single_card = 0
    for number, event in enumerate(events):
        host = host_of.get(event.uuid)
        if host is None:
            continue
        match event:
            case Placed(uuid, task):
                living[uuid] = task
                used[host].update(task.shape.amounts)
                total.update(task.shape.amounts)
                peak |= total
                over += [
                    f"event {number}, {task.name}: {line}" for line in _too_much(nodes[host], used[host])
                ]
                no_single_card += not rack.put(uuid, host, task.shape)
            case Deleted(uuid):
                amounts = living.pop(uuid).shape.amounts
                used[host].subtract(amounts)
                total.subtract(amounts)
                rack.take_away(uuid)
    return History({name: peak[name] for name in CLASSES}, tuple(over), no_single_card)


def _too_much(node: Node, used: Mapping[str, int]) -> list[str]:
    return [
        f"{node.name} has {node.capacity.get(name, 0)} {name} and gave {amount}"
        for name, amount in used.items()
        if amount > node.capacity.get(name, 0)
    ]
