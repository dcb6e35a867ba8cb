"""The page of actions shows the table of the code."""

from __future__ import annotations

from pathlib import Path

import action_table

PAGE = Path(__file__).parents[2] / "docs" / "actions.md"


def test_the_page_shows_the_table_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert "<!-- actions -->" in page
    assert page == action_table.page_with_table(page), "run python docs/action_table.py"
