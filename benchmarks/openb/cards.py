"""Packing of a host's tasks on its cards, one at a time in the order they came: pure.

A zone counts thousandths of a card by host, so it may give a task 810 where 500 are left on each of two
cards. The accounting here is first fit: a task takes, on each of as many cards as it asks for, what it asks
of one, on the first cards with so much left. A task for which there are not enough such cards takes none:
it could not have run.
"""

from __future__ import annotations

from collections.abc import Mapping

from .trace import MILLI_PER_CARD, Node, Shape


class CardRack:
    """The cards of all nodes."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self._free = {name: [MILLI_PER_CARD] * node.cards for name, node in nodes.items()}
        self._taken: dict[str, tuple[str, tuple[int, ...], int]] = {}

    def put(self, task: str, node: str, shape: Shape) -> bool:
        """Take cards for a task; False when the node has not enough that could hold it."""
        free = self._free[node]
        if not shape.cards or not shape.card_milli:
            return True
        fit = [number for number, milli in enumerate(free) if milli >= shape.card_milli]
        chosen = tuple(fit[: shape.cards])
        if len(chosen) < shape.cards:
            return False
        for number in chosen:
            free[number] -= shape.card_milli
        self._taken[task] = (node, chosen, shape.card_milli)
        return True

    def take_away(self, task: str) -> None:
        """Give back what a task took, if it took any."""
        node, chosen, milli = self._taken.pop(task, ("", (), 0))
        for number in chosen:
            self._free[node][number] += milli
