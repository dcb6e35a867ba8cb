"""`python docs/placement_moves.py` writes the moves of a placement into docs/flow.md, from the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from zonesched.model.placement import PlacementState
from zonesched.model.placement_moves import CHILD_MOVES, CHILD_STARTS, LOCAL_MOVES, LOCAL_STARTS, Move

PAGE = Path(__file__).with_name("flow.md")
HEAD = "| from | to | on a local host, when | in a child, when |\n|---|---|---|---|\n"
MARKED = re.compile(r"(<!-- placement moves -->\n).*?(<!-- end -->)", re.DOTALL)


def page_with_moves(page: str) -> str:
    """The page with the marked table of moves made anew."""
    return MARKED.sub(lambda mark: mark[1] + "\n" + table() + "\n" + mark[2], page)


def table() -> str:
    """A row for each state in which a placement begins, then for each move."""
    return HEAD + "".join([*_starts(), *_moves()])


def _starts() -> Iterator[str]:
    for state in PlacementState:
        if state in LOCAL_STARTS or state in CHILD_STARTS:
            yield _row("(new)", state, LOCAL_STARTS.get(state), CHILD_STARTS.get(state))


def _moves() -> Iterator[str]:
    for before in PlacementState:
        for after in PlacementState:
            move = Move(before, after)
            if move in LOCAL_MOVES or move in CHILD_MOVES:
                yield _row(before.name, after, LOCAL_MOVES.get(move), CHILD_MOVES.get(move))


def _row(before: str, after: PlacementState, local: str | None, child: str | None) -> str:
    return f"| {before} | {after.name} | {local or '-'} | {child or '-'} |\n"


if __name__ == "__main__":
    PAGE.write_text(page_with_moves(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
