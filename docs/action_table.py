"""`python docs/action_table.py` writes the table of actions into docs/actions.md, from the code."""

from __future__ import annotations

import re
from pathlib import Path

from zonesched.model.desired_state import LEGAL_IN, Action, Status, power_after

PAGE = Path(__file__).with_name("actions.md")
MARKED = re.compile(r"(<!-- actions -->\n).*?(<!-- end -->)", re.DOTALL)


def page_with_table(page: str) -> str:
    """The page with the marked table made anew."""
    return MARKED.sub(lambda mark: mark[1] + "\n" + table() + "\n" + mark[2], page)


def table() -> str:
    """A row for each action: the power that it asks for in each status in which it is legal."""
    statuses = [status for status in Status if any(status in legal for legal in LEGAL_IN.values())]
    head = ["action", *(status.value for status in statuses)]
    lines = [head, ["---"] * len(head), *(_row(action, statuses) for action in Action)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _row(action: Action, statuses: list[Status]) -> list[str]:
    legal = LEGAL_IN[action]
    powers = [power_after(action, status).value if status in legal else "-" for status in statuses]
    return [f"`{action.value}`", *powers]


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
