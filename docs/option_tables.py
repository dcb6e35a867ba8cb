"""`python docs/option_tables.py` writes the tables of docs/configuration.md from the options themselves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from zonesched import conf
from zonesched.conf.checks import accepted_values

PAGE = Path(__file__).with_name("configuration.md")
HEAD = "| option | default | accepted | what it does |\n|---|---|---|---|\n"
MARKED = re.compile(r"(<!-- options: (?P<title>.+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def page_with_tables(page: str) -> str:
    """The page with the table of each marked group made anew. Raises KeyError for an unknown group."""
    tables = {title: table(options) for title, options in conf.SAMPLE_GROUPS}
    return MARKED.sub(lambda mark: mark[1] + "\n" + tables[mark["title"]] + "\n" + mark[3], page)


def table(options: Any) -> str:
    """A row for each option."""
    return HEAD + "".join(_row(option) for option in options)


def _row(option: Any) -> str:
    cells = (f"`{option.name}`", _default(option.default), accepted_values(option), option.help)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _default(value: Any) -> str:
    match value:
        case bool():
            text = "true" if value else "false"
        case list():
            text = ",".join(value)
        case _:
            text = str(value)
    return f"`{text}`" if text else "empty"


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
