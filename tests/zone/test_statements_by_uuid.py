"""Statements about the instances that a list names look at these alone, however many there are."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.builders.one_zone import a_zone
from zonesched import store
from zonesched.store.prepared import Prepared

BY_UUID = re.compile(r"\b(placements|instances)\.uuid IN \(SELECT value FROM json_each")


def prepared_statements() -> Iterator[tuple[str, Prepared]]:
    """Find the statements that the modules of the store keep, with their names."""
    for found in pkgutil.iter_modules(store.__path__):
        if not found.ispkg:
            module = importlib.import_module(f"{store.__name__}.{found.name}")
            for name, value in sorted(vars(module).items()):
                if isinstance(value, Prepared):
                    yield f"{found.name}.{name}", value


@pytest.mark.sqlite
def test_the_key_of_the_instances_is_searched_and_no_other_index(tmp_path: Path) -> None:
    searched: dict[str, list[str]] = {}
    with a_zone(tmp_path).store.engine.connect() as tx:
        rows = tx.connection.driver_connection
        assert rows is not None
        for name, statement in prepared_statements():
            text = str(statement._statement.compile(tx, compile_kwargs={"render_postcompile": True}))
            if by := BY_UUID.search(text):
                lines = rows.execute(f"EXPLAIN QUERY PLAN {text}", ["x"] * text.count("?")).fetchall()
                searched[name] = [line[3] for line in lines if re.match(rf"(SCAN|SEARCH) {by[1]}\b", line[3])]

    assert len(searched) > 10
    by_key = re.compile(r"SEARCH \w+ USING (COVERING )?INDEX sqlite_autoindex_\w+_1 \(uuid=\?")
    others = {name: lines for name, lines in searched.items() if not all(map(by_key.match, lines))}
    assert others == {}
