"""The migrations make exactly the tables that the store works with, once, and come with the package."""

from __future__ import annotations

import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from tests.builders.migrated import a_bare_database
from zonesched.store import schema, tables
from zonesched.store.schema import SchemaState
from zonesched.store.store import Store

ROOT = Path(__file__).parents[2]


def an_empty_store(folder: Path, name: str = "zone") -> Store:
    return Store.open(a_bare_database(folder / f"{name}.sqlite"))


def test_the_migrated_schema_is_the_one_of_the_tables(tmp_path: Path) -> None:
    store = an_empty_store(tmp_path)

    schema.upgrade(store)

    assert store.read(_differences) == []


def _differences(tx: sa.Connection) -> object:
    return compare_metadata(MigrationContext.configure(tx, opts={"compare_type": True}), tables.metadata)


def test_the_migrated_schema_has_every_key_and_rule_of_the_tables(tmp_path: Path) -> None:
    migrated, direct = an_empty_store(tmp_path), an_empty_store(tmp_path, "direct")
    schema.upgrade(migrated)
    direct.write(tables.metadata.create_all)

    assert _rules(migrated) == _rules(direct)


def _rules(store: Store) -> dict[str, object]:
    """Keys, unique rules, references and indexes by table."""

    def fn(tx: sa.Connection) -> dict[str, object]:
        found = sa.inspect(tx)
        return {
            name: (
                found.get_pk_constraint(name)["constrained_columns"],
                sorted(tuple(rule["column_names"]) for rule in found.get_unique_constraints(name)),
                sorted(
                    (tuple(key["constrained_columns"]), key["referred_table"], str(key["options"]))
                    for key in found.get_foreign_keys(name)
                ),
                sorted((index["name"], tuple(index["column_names"])) for index in found.get_indexes(name)),
            )
            for name in found.get_table_names()
            if name != "alembic_version"
        }

    return store.read(fn)


def test_a_database_says_how_far_it_is(tmp_path: Path) -> None:
    store = an_empty_store(tmp_path)
    empty = schema.state(store)

    schema.upgrade(store)
    current = schema.state(store)
    store.write(lambda tx: tx.execute(sa.text("update alembic_version set version_num = '9999'")))

    assert (empty, current) == (SchemaState.EMPTY, SchemaState.CURRENT)
    assert schema.state(store) is SchemaState.AHEAD


def test_an_upgrade_of_a_current_database_keeps_its_rows(tmp_path: Path) -> None:
    store = an_empty_store(tmp_path)
    schema.upgrade(store)
    store.write(lambda tx: tx.execute(sa.insert(tables.images).values(id="i", name="n", properties="{}")))

    schema.upgrade(store)

    assert store.read(lambda tx: tx.execute(sa.select(tables.images.c.id)).scalars().all()) == ["i"]


def test_a_database_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    store = an_empty_store(tmp_path)
    schema.upgrade(store)
    store.write(lambda tx: tx.execute(sa.text("update alembic_version set version_num = '9999'")))

    schema.upgrade(store)

    assert schema.state(store) is SchemaState.AHEAD


def a_filled_store_of(revision: str, folder: Path) -> Store:
    """A database of an earlier version, with a row in every table."""
    store = an_empty_store(folder)

    def fn(tx: sa.Connection) -> None:
        config = schema._config()
        config.attributes["connection"] = tx
        command.upgrade(config, revision)
        earlier = sa.MetaData()
        earlier.reflect(tx)
        for table in earlier.sorted_tables:
            if table.name != "alembic_version":
                tx.execute(sa.insert(table).values({c.name: a_value(c) for c in table.columns}))

    store.write(fn)
    return store


def a_value(column: sa.Column[Any]) -> Any:
    """The same for a key and for what refers to it."""
    kind = column.type.python_type
    return {str: "x", int: 7, float: 7.5, bool: True}[kind]


LATER_TABLES = {"own_limits"}
"""Tables that the first version did not have."""


def rows_in(store: Store) -> dict[str, int]:
    """Columns of each table that the first version had."""

    def fn(tx: sa.Connection) -> dict[str, int]:
        every = [t for t in tables.metadata.sorted_tables if t.name not in LATER_TABLES]
        return {t.name: tx.execute(sa.select(sa.func.count()).select_from(t)).scalar_one() for t in every}

    return store.read(fn)


@pytest.mark.parametrize("revision", schema.revisions()[1:])
def test_a_filled_database_of_an_earlier_version_is_brought_up_to_date(tmp_path: Path, revision: str) -> None:
    store, direct = a_filled_store_of(revision, tmp_path), an_empty_store(tmp_path, "direct")
    direct.write(tables.metadata.create_all)
    behind = schema.state(store)

    schema.upgrade(store)

    assert (behind, schema.state(store)) == (SchemaState.BEHIND, SchemaState.CURRENT)
    assert store.read(_differences) == []
    assert _rules(store) == _rules(direct)
    assert set(rows_in(store).values()) == {1}
    for table in (t for t in tables.metadata.sorted_tables if t.name not in LATER_TABLES):
        (row,) = store.read(lambda tx, table=table: tx.execute(sa.select(table)).mappings().all())
        assert all(row[c.name] is not None or c.nullable for c in table.columns)


@pytest.mark.parametrize(
    ("stored", "now"), [("silent", "unreachable"), ("not_fitting", "ineligible"), ("answered", "answered")]
)
def test_stored_traces_get_the_present_names_of_outcomes(tmp_path: Path, stored: str, now: str) -> None:
    store = a_filled_store_of("0006", tmp_path)
    trace = '{"children":[{"outcome":"%s","code":"silent"}]}'
    store.write(lambda tx: tx.execute(sa.update(tables.reservations).values(why=trace % stored)))

    schema.upgrade(store)

    assert store.read(lambda tx: tx.execute(sa.select(tables.reservations.c.why)).scalar_one()) == trace % now


START = """
import sys
from zonesched.store import schema
from zonesched.store.store import Store
store = Store.open(sys.argv[1])
schema.upgrade(store)
print(schema.state(store).value)
"""


@pytest.mark.slow
def test_processes_that_start_together_on_an_earlier_version_migrate_it_once(tmp_path: Path) -> None:
    store = a_filled_store_of("0001", tmp_path)
    url = store.engine.url.render_as_string(hide_password=False)
    store.close()

    running = [
        subprocess.Popen([sys.executable, "-c", START, url], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    said = [process.communicate(timeout=120)[0].strip() for process in running]

    assert said == ["current"] * 4
    assert [process.returncode for process in running] == [0] * 4
    assert set(rows_in(store).values()) == {1}


def test_an_upgrade_that_fails_leaves_nothing(tmp_path: Path) -> None:
    store = an_empty_store(tmp_path)
    store.write(lambda tx: tx.execute(sa.text("create table placements (x integer)")))

    with pytest.raises(sa.exc.DBAPIError):
        schema.upgrade(store)

    names = store.read(lambda tx: sa.inspect(tx).get_table_names())
    assert [name for name in names if name != "alembic_version"] == ["placements"]
    assert schema.state(store) is SchemaState.EMPTY


def test_processes_that_start_together_migrate_once(tmp_path: Path) -> None:
    url = a_bare_database(tmp_path / "zone.sqlite")
    stores = [Store.open(url) for _ in range(4)]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(schema.upgrade, stores))

    assert {schema.state(store) for store in stores} == {SchemaState.CURRENT}


@pytest.mark.slow
def test_a_built_package_has_the_migrations(tmp_path: Path) -> None:
    sources, built = _copy_of_sources(tmp_path), tmp_path / "built"

    build = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", str(built)]
    subprocess.run(build, cwd=sources, check=True, capture_output=True)

    folder = ROOT / "zonesched" / "store" / "migrations"
    expected = {path.relative_to(ROOT) for path in folder.rglob("*") if path.suffix in (".py", ".mako")}
    assert len(expected) >= 3
    assert all((built / path).is_file() for path in expected)


def _copy_of_sources(folder: Path) -> Path:
    """The package's sources, so that a build leaves nothing in the checkout."""
    copy = folder / "sources"
    shutil.copytree(ROOT / "zonesched", copy / "zonesched", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "etc", copy / "etc")
    for name in ("pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, copy / name)
    return copy
