"""`python docs/action_table.py` writes the tables of docs/actions.md, from the code."""

from __future__ import annotations

import re
from pathlib import Path

from zonesched.model.action_table import LEGAL_IN, Action, power_after
from zonesched.model.move_steps import STEPS
from zonesched.model.shown_status import Status

EFFECTS = {
    Action.MIGRATE: "moves",
    Action.RESIZE: "moves",
    Action.CONFIRM_RESIZE: "stays",
    Action.REVERT_RESIZE: "moves back",
}
"""Effects of the actions that keep the power as it is."""
PAGE = Path(__file__).with_name("actions.md")
ACTIONS = re.compile(r"(<!-- actions -->\n).*?(<!-- end -->)", re.DOTALL)
MOVE_STEPS = re.compile(r"(<!-- move steps -->\n).*?(<!-- end -->)", re.DOTALL)


def page_with_table(page: str) -> str:
    """The page with the marked tables made anew."""
    page = ACTIONS.sub(lambda mark: mark[1] + "\n" + table() + "\n" + mark[2], page)
    return MOVE_STEPS.sub(lambda mark: mark[1] + "\n" + move_table() + "\n" + mark[2], page)


def move_table() -> str:
    """A row for each step of a move, and when it happens."""
    lines = [["from", "to", "when"], ["---"] * 3]
    lines += [[step.before.name, step.after.name, when] for step, when in STEPS.items()]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def table() -> str:
    """A row for each action: in each status in which it is legal, its power or its effect."""
    statuses = [status for status in Status if any(status in legal for legal in LEGAL_IN.values())]
    head = ["action", *(status.value for status in statuses)]
    lines = [head, ["---"] * len(head), *(_row(action, statuses) for action in Action)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _row(action: Action, statuses: list[Status]) -> list[str]:
    return [f"`{action.value}`", *(_effect(action, status) for status in statuses)]


def _effect(action: Action, status: Status) -> str:
    if status not in LEGAL_IN[action]:
        return "-"
    return EFFECTS.get(action) or power_after(action, status).value


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
